"""Where things lie in a cluster's rendered tree, and what a path there means.

Every file has an ending of ours, so that no name that anybody declares makes it a file that a tool knows: a
`kustomization.yaml` among an Application's files would have Argo CD hand the folder to Kustomize.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from allotment.declared.tenant_resources import TREE_PARTS, parse_file_stem

FILE_SUFFIX = ".rendered.yaml"
FOLDER_MARKER = "allotment--marker"  # keeps a folder from being empty
DELETING_FOLDER_MARKER = "allotment--leaving"  # the same object, in the folder of a tenant that leaves the cluster
FOLDER_MARKERS = (FOLDER_MARKER, DELETING_FOLDER_MARKER)
PROGRAMS_PREFIX = "allotment--programs-"  # begins the name of a ConfigMap with programs of ours, and of its file
DELETING_SUFFIX = "--leaving"  # after the name of a storage or snapshot whose declaration is gone

_TENANT_FILE = re.compile(rf"tenants/([a-z0-9-]+)/({'|'.join(TREE_PARTS)})/([a-z0-9-]+)" + re.escape(FILE_SUFFIX))
_CONTROL_FILE = re.compile(r"control/(argo|namespaces)/[a-z]/([a-z](?:-?[a-z0-9])*)" + re.escape(FILE_SUFFIX))
_SHARD_FILE = re.compile(r"control/tenants-([a-z])" + re.escape(FILE_SUFFIX))
PLATFORM_FILE = f"control/platform{FILE_SUFFIX}"


class TreePath(NamedTuple):
    """What a tenant's file is: of the part argo, namespaces, storage or compute; `name` is the file's stem."""

    tenant: str
    part: str
    name: str

    @property
    def resource_name(self) -> str:
        """The declared name, where it is a thing's own file."""
        resource = parse_file_stem(self.part, self.name)
        return resource[1] if resource else self.name

    @property
    def kind(self) -> str:
        """Whose own file it is: an instance's, a storage's or a snapshot's; empty where it keeps a folder or is
        leaving."""
        resource = parse_file_stem(self.part, self.name)
        return resource[0].word if resource else ""

    @property
    def is_resource_file(self) -> bool:
        """Whether it is a thing's file, also while that is leaving: neither what keeps a folder, nor programs."""
        return self.part in TREE_PARTS and self.name not in FOLDER_MARKERS and not is_programs(self.name)


def argo_file(tenant: str) -> str:
    """Return the path of a tenant's project and Applications."""
    return f"control/argo/{tenant[0]}/{tenant}{FILE_SUFFIX}"


def namespace_file(tenant: str) -> str:
    """Return the path of a tenant's namespace and what isolates it."""
    return f"control/namespaces/{tenant[0]}/{tenant}{FILE_SUFFIX}"


def resource_file(tenant: str, part: str, name: str) -> str:
    """Return the path of a thing of a tenant, or of what keeps its folder."""
    return f"tenants/{tenant}/{part}/{name}{FILE_SUFFIX}"


def is_marker(path: str) -> bool:
    """Return whether a file is what keeps its folder."""
    return file_stem(path) in FOLDER_MARKERS


def is_programs(path: str) -> bool:
    """Return whether a file has the programs that Jobs beside it name."""
    return file_stem(path).startswith(PROGRAMS_PREFIX)


def file_stem(path: str) -> str:
    """Return a file's name without our ending."""
    return path.rpartition("/")[2].removesuffix(FILE_SUFFIX)


def current_path(path: str) -> str:
    """Return where a file lies now that was published at a path before files had an ending of ours."""
    return path if path.endswith(FILE_SUFFIX) else f"{path.removesuffix('.yaml')}{FILE_SUFFIX}"


def shard_file(letter: str) -> str:
    """Return the path of the Applications of one letter's tenants."""
    return f"control/tenants-{letter}{FILE_SUFFIX}"


@lru_cache(maxsize=1 << 18)  # asked several times of every file, in each publish
def parse_tree_path(path: str) -> TreePath | None:
    """Return what a tenant's path means; None for a path of the platform's, or none of ours."""
    if match := _TENANT_FILE.fullmatch(path):
        return TreePath(match[1], match[2], match[3])
    if match := _CONTROL_FILE.fullmatch(path):
        return TreePath(match[2], match[1], match[2])
    return None


def shard_letter(path: str) -> str | None:
    """Return the letter whose shard a path holds."""
    match = _SHARD_FILE.fullmatch(path)
    return match[1] if match else None
