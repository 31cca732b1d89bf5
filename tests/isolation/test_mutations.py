"""Every field of every kind that we render is changed, dropped, doubled and added to: the gate lets none of it pass that isn't the
tenant's own to choose."""

from __future__ import annotations

import copy
import datetime
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import NO_ENTITLEMENTS, IsolationGate
from allotment.manifests.layout import render_cluster, render_tenant
from allotment.manifests.yaml_text import Malformed, dump, load_one, split
from allotment.problems import IsolationBroken
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope
from allotment.services.publish.renderer import build_gate

pytestmark = pytest.mark.process


AT_MOST = 8  # objects of a kind that are alike
PER = ["change", "drop", "twice"]

# What may be otherwise, and why. Paths as in the object, [] for any entry of a list.
POD = "Deployment spec.template.spec."
FREE = {
    "for people and the bill": {
        "AppProject metadata.labels.allotment.dev/plan",
        "Application metadata.labels.allotment.dev/plan",
        "Deployment metadata.annotations.allotment.dev/ssh-command",
        "Deployment metadata.annotations.allotment.dev/units",
        "Deployment metadata.annotations.allotment.dev/waits-for",
        "Deployment metadata.annotations.allotment.dev/waits-reason",
        *(
            f"Deployment spec.template.metadata.labels.bill.allotment.dev/{key}"
            for key in ("cost-center", "film", "project", "team")
        ),
        *(
            f"PersistentVolumeClaim metadata.labels.bill.allotment.dev/{key}"
            for key in ("cost-center", "film", "project")
        ),
        *(
            f"{kind} metadata.labels.allotment.dev/storage-spec"
            for kind in ("ObjectBucketClaim", "PersistentVolumeClaim", "VolumeSnapshot")
        ),
        "Job metadata.annotations.allotment.dev/log",
    },
    "how many run now, up to what is declared": {"Deployment spec.replicas"},
    "the program that a tenant brings, within its pod": {
        f"{POD}containers.[].{field}"
        for field in (
            *("args", "args.[]", "command", "command.[]", "env", "env.[]", "env.[].name", "env.[].value", "image"),
            *("env.[].valueFrom.configMapKeyRef.name", "env.[].valueFrom.secretKeyRef.name"),
            *("ports", "ports.[]", "ports.[].containerPort", "ports.[].name"),
            *("readinessProbe", "readinessProbe.httpGet.path", "readinessProbe.httpGet.port"),
            *("readinessProbe.tcpSocket.port", "startupProbe", "startupProbe.failureThreshold"),
            *("startupProbe.httpGet.path", "startupProbe.httpGet.port", "startupProbe.tcpSocket.port"),
            *("volumeMounts", "volumeMounts.[]", "volumeMounts.[].mountPath", "volumeMounts.[].readOnly"),
            "volumeMounts.[].subPath",
        )
    },
    "which of the tenant's own volumes": {
        f"{POD}volumes",
        f"{POD}volumes.[]",
        f"{POD}volumes.[].persistentVolumeClaim.claimName",
        "PersistentVolumeClaim spec.dataSourceRef",
        "PersistentVolumeClaim spec.dataSourceRef.name",
        "VolumeSnapshot spec.source.persistentVolumeClaimName",
        "Job spec.template.spec.volumes",
        "Job spec.template.spec.volumes.[]",
    },
    "which of the tenant's own secrets": {
        f"ExternalSecret spec.data{field}" for field in ("", ".[]", ".[].secretKey", ".[].remoteRef.property")
    },
    "over what copies are spread": {f"{POD}topologySpreadConstraints", f"{POD}topologySpreadConstraints.[]"},
    "where the server of a tenant's files finds its volume": {
        f"{POD}affinity",
        f"{POD}tolerations",
        *(
            f"{POD}affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.[].labelSelector.matchExpressions.[].values{more}"
            for more in ("", ".[]")
        ),
        "Job spec.template.spec.affinity.podAffinity",
        "Job spec.template.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    },
    "how long it may take": {"Deployment spec.progressDeadlineSeconds", "Job spec.activeDeadlineSeconds"},
    "the program that fills a tenant's storage": {
        *(
            f"Job spec.template.spec.initContainers.[].{field}"
            for field in ("args", "args.[]", "command", "command.[]", "image")
        ),
        "Job spec.template.spec.containers.[].args.[]",
        "Job spec.template.spec.containers.[].env",
        "Job spec.template.spec.containers.[].env.[]",
        "Job spec.podFailurePolicy",
        "PersistentVolumeClaim metadata.annotations.allotment.dev/prepares",
    },
    "the ports of a tenant's own program": {
        "Service spec.ports",
        *(f"Service spec.ports.[]{field}" for field in ("", ".name", ".port", ".targetPort")),
        "HTTPRoute spec.rules.[].backendRefs.[].port",
    },
    "the order of the first sync": {"Application metadata.annotations.argocd.argoproj.io/sync-wave"},
}


class File(NamedTuple):
    path: str
    data: bytes
    entitlements: Entitlements


@pytest.fixture(scope="module")
def bed() -> tuple[IsolationGate, list[File]]:
    """Return a gate and every file of the sample, rendered as if all was prepared and as if nothing was."""
    source = FolderSource(PROJECT)
    repository_check = check_repository(source, datetime.date(2026, 11, 21))
    catalog, files = repository_check.catalog, []
    for name in sorted(repository_check.tally_entries):
        folder = read_folder(Scope("tenant", name), read_scope(source, Scope("tenant", name)).files)[0]
        for path, data in render_tenant(catalog, folder):
            cluster = catalog.clusters[path.partition("/")[0]]
            files.append(File(path, data, Entitlements.from_declarations(catalog, cluster, folder)))
    for cluster in catalog.clusters.values():
        files += [
            File(*rendered_file, NO_ENTITLEMENTS)
            for rendered_file in render_cluster(catalog, cluster, frozenset("sm"), {})
        ]
    return build_gate(catalog), files


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield every place of an object with what can be done there."""
    if isinstance(value, dict):
        yield path, "add"
        for key in value:
            yield (*path, key), "drop"
            yield from spots(value[key], (*path, key))
    elif isinstance(value, list):
        if value:
            yield path, "twice"
        for number, element in enumerate(value):
            yield (*path, number), "drop"
            yield from spots(element, (*path, number))
    else:
        yield path, "change"


def mutated(manifest: Any, path: tuple[Any, ...], how: str) -> Any:
    """Return an object that is otherwise in one place; what lies beside the way there is the same, not a copy."""
    mutant = copy.copy(manifest)
    place = mutant
    for key in path[:-1]:
        place[key] = copy.copy(place[key])
        place = place[key]
    value = place[path[-1]] if path else mutant
    if how == "drop":
        del place[path[-1]]
    elif how == "add" and path:
        place[path[-1]] = {**value, "evil": "x"}
    elif how == "add":
        mutant["evil"] = "x"
    elif how == "twice":
        place[path[-1]] = [*value, value[0]]
    elif isinstance(value, bool):
        place[path[-1]] = not value
    else:
        place[path[-1]] = value + 1 if isinstance(value, int) else f"evil{value}"
    return mutant


def test_no_field_is_otherwise_but_what_is_a_tenants_own(bed: tuple[IsolationGate, list[File]]) -> None:
    gate, files = bed
    passed: set[str] = set()
    tried: Counter[tuple[Any, ...]] = Counter()
    kinds: set[str] = set()
    for file in files:
        texts = split(file.data)
        for text in texts:
            manifest = load_one(text)
            kinds.add(manifest["kind"])
            pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
            programs = [
                str(each.get("command")) for each in (*pod.get("initContainers", ()), *pod.get("containers", ()))
            ]
            for path, how in spots(manifest):
                name = ".".join("[]" if isinstance(key, int) else str(key) for key in path)
                alike = (
                    manifest["kind"],
                    *programs,
                    *sorted(manifest["metadata"].get("labels", ())),
                    file.path.split("/")[1],
                    name,
                    how,
                )
                tried[alike] += 1
                if tried[alike] > AT_MOST:
                    continue
                try:
                    wrong = dump([mutated(manifest, path, how)]).decode().removesuffix("\n")
                except IndexError:
                    continue  # an entry that became empty can't be written
                others = texts if "/control/" in file.path else [text]  # Applications are judged together
                data = "\n---\n".join([wrong if one_text is text else one_text for one_text in others]) + "\n"
                try:
                    gate.check(file.path, data.encode(), file.entitlements)
                except (IsolationBroken, Malformed):
                    continue
                passed.add(f"{manifest['kind']} {name}")
    assert len(kinds) > 20
    assert sum(tried.values()) > 20_000
    free = set().union(*FREE.values())
    assert passed - free == set(), "the gate lets these be otherwise"
    assert free - passed == set(), "these no longer need to be listed"
