"""What a shell completes: names that the repository around the current folder has, by its folders alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from allotment.adapters.folder import find_root
from allotment.cli.options import FOLDER, sample_folder
from allotment.problems import Refused

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _root(context: click.Context) -> Path | None:
    repo, here = context.params.get("repo"), context.meta.get(FOLDER, Path.cwd())
    try:
        return here / repo if repo else find_root(here)
    except Refused:  # there is nothing to complete from
        return None


def _names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.stem for path in folder.glob(pattern) if not path.name.startswith("."))


def tenants(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of tenants."""
    root = _root(context)
    return _matching(_names(root / "tenants", "*/") if root else [], incomplete)


def clusters(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clusters."""
    root = _root(context)
    return _matching(_names(root / "clusters", "*/") if root else [], incomplete)


def specs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of GPUSpecs."""
    root = _root(context)
    return _matching(_names(root / "platform/specs", "*.yaml") if root else [], incomplete)


def add_ons(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of add-ons."""
    root = _root(context)
    return _matching(_names(root / "platform/add-ons", "*.yaml") if root else [], incomplete)


def ready_made_add_ons(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the add-ons that Allotment brings."""
    return _matching(_names(sample_folder() / "platform/add-ons", "*.yaml"), incomplete)


def things(*folders: str, alone: bool = False) -> Completer:
    """Return what completes TENANT/NAME of what lies in some of a tenant's folders. TENANT comes first, with what lies
    there at once where no other begins so and it isn't meant `alone`: a shell would add a blank to it."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        root = _root(context)
        tenant, slash, _ = incomplete.partition("/")
        if root is None or not slash:
            tenant_names = tenants(context, parameter, incomplete)
            if root is None or alone or len(tenant_names) != 1:
                return tenant_names
            (tenant,) = tenant_names
        resource_names = {name for folder in folders for name in _names(root / "tenants" / tenant / folder, "*.yaml")}
        return _matching(sorted(f"{tenant}/{name}" for name in resource_names), incomplete)

    return complete


ALL_FOLDERS = ("instances", "storages", "snapshots")
ANY_THING = things(*ALL_FOLDERS)
TENANT_OR_THING = things(*ALL_FOLDERS, alone=True)


def subjects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return what has a manual page: kinds, their fields, rules, reasons."""
    from allotment.declared.kinds import KINDS
    from allotment.reports.manual import page
    from allotment.reports.reason_pages import reason_pages
    from allotment.reports.rule_pages import rule_pages

    if context.params.get("words") and context.params["words"][0] == "rule":
        return _matching(list(rule_pages()), incomplete)
    if context.params.get("words") and context.params["words"][0] == "reason":
        return _matching(list(reason_pages()), incomplete)
    above, dot, _ = incomplete.rpartition(".")
    if not dot:
        return _matching(
            [*KINDS, "rule", "reason", *([*reason_pages(), *rule_pages()] if incomplete else ())], incomplete
        )
    try:
        return _matching([f"{above}.{field.name}" for field in page(above).fields], incomplete)
    except Refused:
        return []


def _matching(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
