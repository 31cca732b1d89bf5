"""Where things lie in a cluster's rendered tree, and what a path there means.

Every file has an ending of ours, so that no name that anybody declares makes it a file that a tool knows: a
`kustomization.yaml` among an Application's files would have Argo CD hand the folder to Kustomize.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from allotment.declared.things import PARTS, thing_at

ENDING = ".rendered.yaml"
MARKER = "allotment--marker"  # keeps a folder from being empty
LEAVING_MARKER = "allotment--leaving"  # the same object, in the folder of a tenant that leaves the cluster
MARKERS = (MARKER, LEAVING_MARKER)
PROGRAMS = "allotment--programs-"  # begins the name of a ConfigMap with programs of ours, and of its file
LEAVING = "--leaving"  # after the name of a storage or snapshot whose declaration is gone

_TENANT_FILE = re.compile(rf"tenants/([a-z0-9-]+)/({'|'.join(PARTS)})/([a-z0-9-]+)" + re.escape(ENDING))
_CONTROL_FILE = re.compile(r"control/(argo|namespaces)/[a-z]/([a-z](?:-?[a-z0-9])*)" + re.escape(ENDING))
_SHARD_FILE = re.compile(r"control/tenants-([a-z])" + re.escape(ENDING))
PLATFORM_FILE = f"control/platform{ENDING}"


class Spot(NamedTuple):
    """What a tenant's file is: of the part argo, namespaces, storage or compute; `name` is the file's stem."""

    tenant: str
    part: str
    name: str

    @property
    def thing(self) -> str:
        """The declared name, where it is a thing's own file."""
        resource = thing_at(self.part, self.name)
        return resource[1] if resource else self.name

    @property
    def kind(self) -> str:
        """Whose own file it is: an instance's, a storage's or a snapshot's; empty where it keeps a folder or is
        leaving."""
        resource = thing_at(self.part, self.name)
        return resource[0].word if resource else ""

    @property
    def is_of_thing(self) -> bool:
        """Whether it is a thing's file, also while that is leaving: neither what keeps a folder, nor programs."""
        return self.part in PARTS and self.name not in MARKERS and not is_programs(self.name)


def argo_file(tenant: str) -> str:
    """Return the path of a tenant's project and Applications."""
    return f"control/argo/{tenant[0]}/{tenant}{ENDING}"


def namespace_file(tenant: str) -> str:
    """Return the path of a tenant's namespace and what isolates it."""
    return f"control/namespaces/{tenant[0]}/{tenant}{ENDING}"


def tenant_file(tenant: str, part: str, name: str) -> str:
    """Return the path of a thing of a tenant, or of what keeps its folder."""
    return f"tenants/{tenant}/{part}/{name}{ENDING}"


def is_marker(path: str) -> bool:
    """Return whether a file is what keeps its folder."""
    return stem_of(path) in MARKERS


def is_programs(path: str) -> bool:
    """Return whether a file has the programs that Jobs beside it name."""
    return stem_of(path).startswith(PROGRAMS)


def stem_of(path: str) -> str:
    """Return a file's name without our ending."""
    return path.rpartition("/")[2].removesuffix(ENDING)


def today(path: str) -> str:
    """Return where a file lies now that was published at a path before files had an ending of ours."""
    return path if path.endswith(ENDING) else f"{path.removesuffix('.yaml')}{ENDING}"


def shard_file(letter: str) -> str:
    """Return the path of the Applications of one letter's tenants."""
    return f"control/tenants-{letter}{ENDING}"


@lru_cache(maxsize=1 << 18)  # asked several times of every file, in each publish
def spot_of(path: str) -> Spot | None:
    """Return what a tenant's path means; None for a path of the platform's, or none of ours."""
    if match := _TENANT_FILE.fullmatch(path):
        return Spot(match[1], match[2], match[3])
    if match := _CONTROL_FILE.fullmatch(path):
        return Spot(match[2], match[1], match[2])
    return None


def letter_of(path: str) -> str | None:
    """Return the letter whose shard a path holds."""
    match = _SHARD_FILE.fullmatch(path)
    return match[1] if match else None
