"""Define the paths of declarations, and parse a path into kind, scope and name."""

from __future__ import annotations

import re
from typing import NamedTuple

from allotment.declared.kinds import KINDS, Kind
from allotment.problems import Finding, pluralize, quote_value

ROOTS = ("clusters", "platform", "tenants")
MAX_NAME_LENGTHS = {"tenant": 20, "cluster": 24, "GPUInstance": 24}
DEFAULT_MAX_NAME_LENGTH = 32
WINDOWS_DEVICE_NAMES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
# The names of Argo CD objects start with `allotment--` for the platform, and with `<tenant>--` for a tenant. So no
# tenant may have the name `allotment`.
RESERVED_TENANT_NAMES = frozenset(("allotment",))

NAME = re.compile(r"[a-z](?:-?[a-z0-9])*")
_SINGLE_FILES: dict[tuple[str, str], Kind] = {}
_FOLDERS: dict[tuple[str, str], Kind] = {}
for _kind in KINDS.values():
    _parts = _kind.path.split("/")
    if _kind.singleton:
        _SINGLE_FILES[(_parts[0], _parts[-1])] = _kind
    else:
        _FOLDERS[(_parts[0], _parts[-2])] = _kind


class Scope(NamedTuple):
    """The owner of a file: the platform, a cluster, or a tenant."""

    kind: str
    name: str


class DeclarationPath(NamedTuple):
    """The kind, scope and name that a path stands for."""

    kind: Kind
    scope: Scope
    name: str


PLATFORM = Scope("platform", "")


def scope_of(path: str) -> Scope:
    """Return the scope of a path below one of the three `ROOTS`, even if no file is allowed at the path."""
    parts = path.split("/")
    if parts[0] == "platform" or len(parts) < 3:
        return PLATFORM
    return Scope({"clusters": "cluster", "tenants": "tenant"}[parts[0]], parts[1])


def folder_of(scope: Scope) -> str:
    """Return the folder of a scope's files."""
    return {"platform": "platform", "cluster": "clusters/", "tenant": "tenants/"}[scope.kind] + scope.name


def parse_path(path: str) -> DeclarationPath | Finding | None:
    """Return the parsed path, a finding if no file is allowed at the path, or None for a README.md."""
    parts = path.split("/")
    file = parts[-1]
    if file == "README.md":
        return None
    root = parts[0]
    depth = 0 if root == "platform" else 1
    scope = scope_of(path)
    if depth and len(parts) < 3:
        return _misplaced_finding(path)
    if len(parts) == 2 + depth:
        kind = _SINGLE_FILES.get((root, file))
        name = scope.name or file.removesuffix(".yaml")
    elif len(parts) == 3 + depth:
        kind = _FOLDERS.get((root, parts[-2]))
        name = file.removesuffix(".yaml")
        if kind is not None and not file.endswith(".yaml"):
            return Finding(
                path,
                (),
                f"only .yaml files and README.md are allowed here: move {quote_value(file)}, or rename it",
                "layout",
            )
    else:
        return _misplaced_finding(path)
    if kind is None:
        return _misplaced_finding(path)
    for noun, owner, text in ((scope.kind, scope.kind, scope.name), ("file", kind.name, name)):
        if text and (wrong := name_error(text, MAX_NAME_LENGTHS.get(owner, DEFAULT_MAX_NAME_LENGTH))):
            return Finding(path, (), f"{noun} name {quote_value(text)} {wrong}", "name")
    if scope.kind == "tenant" and scope.name in RESERVED_TENANT_NAMES:
        message = f"tenant name {quote_value(scope.name)} is reserved for the platform's own objects in Argo CD: choose another"
        return Finding(path, (), message, "name")
    return DeclarationPath(kind, scope, name)


def find_singleton(path: str) -> Kind | None:
    """Return the kind of a file such as cluster.yaml, which its folder has once; None for another file."""
    return _SINGLE_FILES.get((path.split("/", maxsplit=1)[0], path.rpartition("/")[2]))


def name_error(name: str, longest: int) -> str | None:
    """Return the end of an error message about a name: the fault and the fix; None if the name is correct."""
    if not NAME.fullmatch(name):
        return "is not allowed: write a-z, 0-9 and single '-', a letter first, no '-' last"
    if not 3 <= len(name) <= longest:
        return f"has {pluralize(len(name), 'character')}: write 3 to {longest}"
    if name in WINDOWS_DEVICE_NAMES:
        return "is a device name on Windows, where Git can't check out the repository: choose another"
    return None


def path_of(kind: str, scope: Scope, name: str) -> str:
    """Return the path of a declaration."""
    return KINDS[kind].path.format(name=name, cluster=scope.name, tenant=scope.name)


def _misplaced_finding(path: str) -> Finding:
    root = path.split("/", 1)[0]
    locations = ", ".join(kind.path for kind in KINDS.values() if kind.path.startswith(f"{root}/"))
    return Finding(path, (), f"no declaration belongs here: move the file to one of {locations}", "layout")
