"""Render the ConfigMaps with the programs that a tenant's Jobs run: one for each set of programs that a Job needs.

A ConfigMap's name contains a hash of its content. All Jobs with the same programs share a ConfigMap. A Job of an older
version of Allotment keeps the ConfigMap of that version. If somebody deletes a ConfigMap in the cluster, Argo CD
creates it again with the same content, because its manifest stays in Git.
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

# Maps the last program that a pod runs to all programs in the pod's ConfigMap. The pod for a cloned volume runs only
# `seal`, but gets the ConfigMap that also has `check` and `hold`: a second ConfigMap would cost more than two unused
# programs.
PROGRAM_SETS: dict[str, tuple[str, ...]] = {
    "seal": ("check", "hold", "seal"),
    "copy_folder": ("copy_folder",),
    "copy_shared": ("copy_shared",),
    "fetch_url": ("fetch_url",),
    "fetch_s3": ("fetch_s3",),
}
_KEEP_ANNOTATIONS = Frozen({names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION})


def hash_programs(data: Mapping[str, Any]) -> str:
    """Return the hash of a ConfigMap's programs; the name of the ConfigMap ends with this hash."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@cache
def read_program_files(program: str) -> Frozen:
    """Return the files of the programs, by name, for a pod that runs `program` last."""
    return Frozen(texts(*PROGRAM_SETS[program]))


@cache
def programs_name(program: str) -> str:
    """Return the name of the ConfigMap for pods that run `program` last."""
    return f"{paths.PROGRAMS_PREFIX}{program.replace('_', '-')}-{hash_programs(read_program_files(program))}"


@cache
def programs_by_name() -> dict[str, Frozen]:
    """Return the content of each ConfigMap with programs of this version of Allotment, by name."""
    return {programs_name(program): read_program_files(program) for program in PROGRAM_SETS}


def render(tenant: str, jobs: Iterable[Object]) -> Iterator[Object]:
    """Yield the ConfigMaps that a tenant's Jobs mount, each once."""
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
