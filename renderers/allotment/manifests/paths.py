"""Define the paths of the files in a cluster's rendered tree, and parse them.

Every file name ends in `.rendered.yaml`, because tools treat some file names specially. If, for example, a resource
named `kustomization` had the file `kustomization.yaml`, Argo CD would pass the whole folder to Kustomize.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from allotment.declared.tenant_resources import TREE_PARTS, parse_file_stem

FILE_SUFFIX = ".rendered.yaml"
FOLDER_MARKER = "allotment--marker"  # stem of the file that keeps an otherwise empty folder in Git
DELETING_FOLDER_MARKER = "allotment--leaving"  # stem of the marker of a tenant that is leaving the cluster
FOLDER_MARKERS = (FOLDER_MARKER, DELETING_FOLDER_MARKER)
PROGRAMS_PREFIX = "allotment--programs-"  # prefix of the name of a ConfigMap with our programs, and of its file
DELETING_SUFFIX = "--leaving"  # suffix of the name of a storage or snapshot after its declaration was removed

_TENANT_FILE = re.compile(rf"tenants/([a-z0-9-]+)/({'|'.join(TREE_PARTS)})/([a-z0-9-]+)" + re.escape(FILE_SUFFIX))
_CONTROL_FILE = re.compile(r"control/(argo|namespaces)/[a-z]/([a-z](?:-?[a-z0-9])*)" + re.escape(FILE_SUFFIX))
_SHARD_FILE = re.compile(r"control/tenants-([a-z])" + re.escape(FILE_SUFFIX))
PLATFORM_FILE = f"control/platform{FILE_SUFFIX}"


class TreePath(NamedTuple):
    """The parsed path of a tenant's file.

    `part` is the part of the tree: argo, namespaces, storage or compute. `name` is the stem of the file.
    """

    tenant: str
    part: str
    name: str

    @property
    def resource_name(self) -> str:
        """Return the declared name of the resource; the file's stem if `kind` is empty."""
        resource = parse_file_stem(self.part, self.name)
        return resource[1] if resource else self.name

    @property
    def kind(self) -> str:
        """Return the kind of the resource: instance, storage or snapshot.

        Empty for a resource that is being deleted, and for a file that belongs to no resource.
        """
        resource = parse_file_stem(self.part, self.name)
        return resource[0].word if resource else ""

    @property
    def is_resource_file(self) -> bool:
        """Return whether the file belongs to a resource, even to a resource that is being deleted.

        False for folder markers, for programs, and for files in `control/`.
        """
        return self.part in TREE_PARTS and self.name not in FOLDER_MARKERS and not is_programs(self.name)


def argo_file(tenant: str) -> str:
    """Return the path of a tenant's AppProject and Applications."""
    return f"control/argo/{tenant[0]}/{tenant}{FILE_SUFFIX}"


def namespace_file(tenant: str) -> str:
    """Return the path of a tenant's Namespace and the objects that isolate it."""
    return f"control/namespaces/{tenant[0]}/{tenant}{FILE_SUFFIX}"


def resource_file(tenant: str, part: str, name: str) -> str:
    """Return the path of a file in a tenant's folder `part`, which is storage or compute; `name` is the file's stem."""
    return f"tenants/{tenant}/{part}/{name}{FILE_SUFFIX}"


def is_marker(path: str) -> bool:
    """Return whether a file is a folder marker."""
    return file_stem(path) in FOLDER_MARKERS


def is_programs(path: str) -> bool:
    """Return whether a file contains a ConfigMap with the programs that Jobs run."""
    return file_stem(path).startswith(PROGRAMS_PREFIX)


def file_stem(path: str) -> str:
    """Return a file's name without `.rendered.yaml`."""
    return path.rpartition("/")[2].removesuffix(FILE_SUFFIX)


def current_path(path: str) -> str:
    """Return the current path of a file that may have been published before file names ended in `.rendered.yaml`."""
    return path if path.endswith(FILE_SUFFIX) else f"{path.removesuffix('.yaml')}{FILE_SUFFIX}"


def shard_file(letter: str) -> str:
    """Return the path of the file with the Applications that sync all tenants with this first letter."""
    return f"control/tenants-{letter}{FILE_SUFFIX}"


@lru_cache(maxsize=1 << 18)  # called several times for every file in each publish
def parse_tree_path(path: str) -> TreePath | None:
    """Return the parsed path of a tenant's file; None for the platform's files and for unknown paths."""
    if match := _TENANT_FILE.fullmatch(path):
        return TreePath(match[1], match[2], match[3])
    if match := _CONTROL_FILE.fullmatch(path):
        return TreePath(match[2], match[1], match[2])
    return None


def shard_letter(path: str) -> str | None:
    """Return the letter of a path that `shard_file` returned; None for any other path."""
    match = _SHARD_FILE.fullmatch(path)
    return match[1] if match else None
