"""Errors that only the files of one tenant raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from allotment import rules
from allotment.manifests import layout
from allotment.services.publish import release_assembly
from allotment.services.publish.release import ClusterTrees

Break = Callable[[pytest.MonkeyPatch], None]


def _check(patch: pytest.MonkeyPatch) -> None:
    name, check = next(iter(rules.TENANT_RULES.items()))

    def failing(catalog: Any, folder: Any) -> Any:
        return {}["spec"] if folder.name == "solo-ada" else check(catalog, folder)

    patch.setitem(rules.TENANT_RULES, name, failing)


def _failing_for(patch: pytest.MonkeyPatch, owner: Any, name: str, is_its_own: Callable[..., bool]) -> None:
    works = getattr(owner, name)

    def failing(*arguments: Any) -> Any:
        return {}["spec"] if is_its_own(*arguments) else works(*arguments)

    patch.setattr(owner, name, failing)


BREAKS: dict[str, Break] = {
    "check": _check,
    "render": lambda patch: _failing_for(
        patch, layout, "render_tenant", lambda _, tenant, *more: tenant.name == "solo-ada"
    ),
    "transition": lambda patch: _failing_for(
        patch, release_assembly, "transition_tenant", lambda tenant, *more: tenant == "solo-ada"
    ),
    "gate": lambda patch: _failing_for(
        patch,
        ClusterTrees,
        "check_transition",
        lambda _, transition: any("/solo-ada/" in path for path in transition.updated),
    ),
}
