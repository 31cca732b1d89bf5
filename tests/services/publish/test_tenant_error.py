"""A bug that one tenant runs into retains that tenant: all others are checked and published, and the trace is reported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot, edit
from tests.support.published import Place

from allotment import rules
from allotment.manifests import layout
from allotment.services.publish import release_assembly
from allotment.services.publish.release import ClusterTrees

OTHER = "tenants/uni-lab/instances/group-a.yaml"
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


@pytest.mark.parametrize("place_of_bug", BREAKS)
def test_a_bug_retains_its_tenant_and_the_others_are_published(
    published: Place, monkeypatch: pytest.MonkeyPatch, place_of_bug: str
) -> None:
    before = published.tree("eu-1")
    edit(published.root, OTHER, "state: Running", "state: Stopped")
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    with monkeypatch.context() as patch:
        BREAKS[place_of_bug](patch)
        result = published.merged()
    assert result.code == 4, result.err
    assert "KeyError" in result.err
    assert "[internal-error]" in result.err
    after = published.tree("eu-1")
    assert "  replicas: 0\n" in after["tenants/uni-lab/compute/group-a.rendered.yaml"], "the other tenant is published"
    ada = {
        path: text
        for path, text in after.items()
        if "/solo-ada/" in path and not path.endswith("--marker.rendered.yaml")
    }
    assert ada
    assert ada == {path: before[path] for path in ada}
    report = re.search(r"tenant solo-ada ran into a bug in Allotment; please send us (\S+)", result.err)
    assert report is not None, result.err
    assert "KeyError: 'spec'" in Path(report[1]).read_text()
    assert published.publish().code == 0, "once the bug is fixed, the tenant is published"
    assert "  replicas: 0\n" in published.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]


def test_validate_reports_a_bug_beside_all_other_problems(
    sample: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(sample, OTHER, "state: Running", "state: Walking")
    _check(monkeypatch)
    result = allot("validate", "--repo", sample)
    assert result.code == 1
    assert "tenants/solo-ada:1:1: (file): Allotment failed on this tenant: KeyError in services/check/" in result.out
    assert f"{OTHER}:" in result.out
    assert "please send us" in result.err
