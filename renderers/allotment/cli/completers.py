"""Completes names for a shell from the folders of a repository: that of --repo, or of the current folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click

from allotment.adapters.checkout_paths import is_regular
from allotment.adapters.folder_source import FolderSource, find_root
from allotment.cli.options import FOLDER_KEY, find_sample_folder
from allotment.problems import OperationRefused

# bash inserts a completed name as it is, so that a file named `webui$(id)` of a stranger would run `id`. No declared name has
# such characters, except names of groups with a space, which are not offered.
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/#-]*")
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _find_root(context: click.Context) -> Path | None:
    repo, here = context.params.get("repo"), context.meta.get(FOLDER_KEY, Path.cwd())
    try:
        return here / repo if repo else find_root(here)
    except OperationRefused:  # outside a repository, there are no names to complete
        return None


def _list_stems(folder: Path, pattern: str) -> list[str]:
    return sorted(path.stem for path in folder.glob(pattern) if not path.name.startswith("."))


def complete_tenants(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of tenants."""
    root = _find_root(context)
    return _filter_by_prefix(_list_stems(root / "tenants", "*/") if root else [], incomplete)


def complete_clusters(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clusters."""
    root = _find_root(context)
    return _filter_by_prefix(_list_stems(root / "clusters", "*/") if root else [], incomplete)


def complete_gpu_specs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of GPUSpecs."""
    root = _find_root(context)
    return _filter_by_prefix(_list_stems(root / "platform/specs", "*.yaml") if root else [], incomplete)


def complete_add_ons(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of add-ons."""
    root = _find_root(context)
    return _filter_by_prefix(_list_stems(root / "platform/add-ons", "*.yaml") if root else [], incomplete)


def complete_ready_made_add_ons(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the add-ons that come with Allotment."""
    return _filter_by_prefix(_list_stems(find_sample_folder() / "platform/add-ons", "*.yaml"), incomplete)


def complete_apps(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the declared apps."""
    root = _find_root(context)
    return _filter_by_prefix(_list_stems(root / "platform/apps", "*.yaml") if root else [], incomplete)


def complete_catalog_apps(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the apps of the built-in catalog."""
    from allotment.starter.apps import APPS

    return _filter_by_prefix(list(APPS), incomplete)


def complete_first_add_ons(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the add-ons that a first cluster needs."""
    from allotment.starter.apps import FIRST_ADD_ONS

    return _filter_by_prefix(list(FIRST_ADD_ONS), incomplete)


def create_resource_completer(*folders: str, alone: bool = False) -> Completer:
    """Return a completer of TENANT/NAME, where NAME is the name of a file in one of `folders` of the tenant.

    It completes TENANT first. If only one tenant matches, it offers TENANT/NAME at once, because a shell would add a
    space after TENANT. With `alone`, it always offers TENANT first, because the command also accepts a tenant alone.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        root = _find_root(context)
        tenant, slash, _ = incomplete.partition("/")
        if root is None or not slash:
            tenant_names = complete_tenants(context, parameter, incomplete)
            if root is None or alone or len(tenant_names) != 1:
                return tenant_names
            (tenant,) = tenant_names
        resource_names = {
            name for folder in folders for name in _list_stems(root / "tenants" / tenant / folder, "*.yaml")
        }
        return _filter_by_prefix(sorted(f"{tenant}/{name}" for name in resource_names), incomplete)

    return complete


def complete_storages(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the storages of the tenant that the earlier argument TENANT/NAME names, without the tenant."""
    tenant = str(context.params.get("what") or "").partition("/")[0]
    names = create_resource_completer("storages")(context, parameter, f"{tenant}/")
    return _filter_by_prefix([name.partition("/")[2] for name in names], incomplete)


ALL_FOLDERS = ("instances", "storages", "snapshots")
COMPLETE_RESOURCE = create_resource_completer(*ALL_FOLDERS)
COMPLETE_TENANT_OR_RESOURCE = create_resource_completer(*ALL_FOLDERS, alone=True)


def complete_containers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the containers that Allotment renders into the pods of an instance or of a preparation."""
    from allotment.manifests.tenant.gpu_instance import CONTAINER_NAME as INSTANCE_CONTAINER
    from allotment.manifests.tenant.preparation import CONTAINER_NAMES as PREPARATION_CONTAINERS

    tenant, _, name = str(context.params.get("what") or "").partition("/")
    root = _find_root(context)
    is_storage = root is not None and name in _list_stems(root / "tenants" / tenant / "storages", "*.yaml")
    return _filter_by_prefix([*PREPARATION_CONTAINERS] if is_storage else [INSTANCE_CONTAINER], incomplete)


def complete_subjects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the subjects of manual pages: kinds, their fields, rules, states, reasons."""
    from allotment.declared.kinds import KINDS
    from allotment.reports.manual_pages import manual_page
    from allotment.reports.reason_pages import reason_pages
    from allotment.reports.rule_pages import rule_pages
    from allotment.reports.state_pages import STATE_PAGES

    if context.params.get("words") and context.params["words"][0] == "rule":
        return _filter_by_prefix(list(rule_pages()), incomplete)
    if context.params.get("words") and context.params["words"][0] == "reason":
        return _filter_by_prefix(list(reason_pages()), incomplete)
    above, dot, _ = incomplete.rpartition(".")
    if not dot:
        return _filter_by_prefix(
            [*KINDS, "rule", "reason", *([*reason_pages(), *rule_pages(), *STATE_PAGES] if incomplete else ())],
            incomplete,
        )
    try:
        return _filter_by_prefix([f"{above}.{field.name}" for field in manual_page(above).fields], incomplete)
    except OperationRefused:
        return []


def _filter_by_prefix(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and _SAFE_NAME.fullmatch(name)]


def complete_plans(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of Plans."""
    root = _find_root(context)
    return _filter_by_prefix(_list_stems(root / "platform/plans", "*.yaml") if root else [], incomplete)


def complete_members(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the people, or of the groups, of the tenant that the command names."""
    from allotment.declared.documents import read

    root, tenant = _find_root(context), context.params.get("tenant")
    try:
        path = f"tenants/{tenant}/members.yaml"
        data = FolderSource(root).read(path) if root and is_regular(root, path) else b"spec: {}"
        spec = (read(data).value or {})["spec"]
        entries = spec.get("groups" if context.params.get("is_group") else "users", [])
        return _filter_by_prefix(sorted(entry["name"] for entry in entries), incomplete)
    except (OSError, KeyError, TypeError, AttributeError):
        return []


def complete_stocks(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of stocks, as CLUSTER/NAME."""
    return _complete_in_clusters(context, "stocks", incomplete)


def complete_node_pools(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the node pools of all clusters. The shell has not parsed the name of the cluster yet."""
    names = {name.partition("/")[2] for name in _complete_in_clusters(context, "node-pools", "")}
    return _filter_by_prefix(sorted(names), incomplete)


def _complete_in_clusters(context: click.Context, folder: str, incomplete: str) -> list[str]:
    root = _find_root(context)
    paths = root.glob(f"clusters/*/{folder}/*.yaml") if root else ()
    return _filter_by_prefix(sorted(f"{path.parent.parent.name}/{path.stem}" for path in paths), incomplete)
