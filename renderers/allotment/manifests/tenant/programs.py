"""The programs of ours that a tenant's Jobs run → ConfigMaps: one for each set of programs that some Job of the
namespace runs.

A ConfigMap is named by the hash of what it holds. So Jobs share it, those that an older version of ours brought
keep theirs beside it, and one that somebody deleted comes back as what it was: nothing but Git has to keep it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from allotment.manifests import names, paths
from allotment.manifests.yaml_text import Frozen, Object
from allotment.programs import texts

# The program that a pod ends with → all that stand in its ConfigMap. A clone's pod runs `seal` alone: the two
# beside it are less than a ConfigMap of its own would be in a namespace that has an image's too.
PROGRAM_SETS: dict[str, tuple[str, ...]] = {
    "seal": ("check", "hold", "seal"),
    "copy_folder": ("copy_folder",),
    "copy_shared": ("copy_shared",),
    "fetch_url": ("fetch_url",),
    "fetch_s3": ("fetch_s3",),
}
_KEEP_ANNOTATIONS = Frozen({names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION})


def hash_programs(data: Mapping[str, Any]) -> str:
    """Return the hash that the name of programs ends with."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@cache
def read_program_files(program: str) -> Frozen:
    """Return what a pod runs that ends with a program, as files by name."""
    return Frozen(texts(*PROGRAM_SETS[program]))


@cache
def programs_name(program: str) -> str:
    """Return the name of the ConfigMap that a pod runs which ends with a program."""
    return f"{paths.PROGRAMS_PREFIX}{program.replace('_', '-')}-{hash_programs(read_program_files(program))}"


@cache
def programs_by_name() -> dict[str, Frozen]:
    """Return what each ConfigMap of programs holds today."""
    return {programs_name(program): read_program_files(program) for program in PROGRAM_SETS}


def render(tenant: str, jobs: Iterable[Object]) -> Iterator[Object]:
    """Yield the programs that a tenant's Jobs name, each once."""
    for name in sorted({name for job in jobs for name in _read_program_names(job)}):
        metadata = {
            "name": name,
            "namespace": names.namespace(tenant),
            "labels": names.labels(tenant=tenant),
            "annotations": _KEEP_ANNOTATIONS,
        }
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "immutable": True,
            "data": programs_by_name()[name],
        }


def _read_program_names(job: Object) -> list[str]:
    volumes = job["spec"]["template"]["spec"]["volumes"]
    return [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
