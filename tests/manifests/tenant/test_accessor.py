"""The file server of a storage: who may change files through it, and from when on."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conftest import DAY, Allot, edit

from allotment.adapters.folder_source import FolderSource
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import IsolationGate
from allotment.manifests.layout import render_tenant
from allotment.manifests.yaml_text import dump, load
from allotment.preparation.runtime_state import ALL_PREPARED, UNKNOWN_STATE
from allotment.problems import IsolationBroken
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope
from allotment.services.publish.renderer import build_gate

OUTPUTS, CACHE = "outputs", "model-cache"  # the second has a preparation
READ = {"methods": ["GET", "HEAD", "OPTIONS"]}
READER_ARGS = ["/data", "--port", "5000", "--hidden", ".allotment,lost+found", "--allow-hash"]


def objects(allot: Allot, root: Path, out: Path, storage: str) -> dict[str, dict[str, Any]]:
    """Return the rendered objects of a storage by kind."""
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    data = (out / f"eu-1/tenants/studio-kite/storage/{storage}.rendered.yaml").read_bytes()
    return {manifest["kind"]: manifest for manifest in load(data)}


def declare_writing(root: Path, storage: str, exposure: str = "Members") -> None:
    file = f"tenants/studio-kite/storages/{storage}.yaml"
    edit(root, file, "    exposure: Members\n", f"    exposure: {exposure}\n    mode: ReadWrite\n")


def pod(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["Deployment"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("exposure", ["Members", "Namespace"])
def test_a_writer_changes_the_volume_and_nothing_else(
    exposure: str, sample: Path, allot: Allot, tmp_path: Path
) -> None:
    before = pod(objects(allot, sample, tmp_path / "before", OUTPUTS))
    declare_writing(sample, OUTPUTS, exposure)
    after = pod(objects(allot, sample, tmp_path / "after", OUTPUTS))
    (was,), (now,) = before["containers"], after["containers"]
    assert was["args"] == READER_ARGS
    assert now["args"] == [*READER_ARGS, "--allow-upload", "--allow-delete"]
    assert (was["volumeMounts"][0].pop("readOnly"), before["volumes"][0]["persistentVolumeClaim"].pop("readOnly")) == (
        True,
        True,
    )
    assert {**was, "args": now["args"]} == now, "and the root file system stays read-only"
    assert {**before, "containers": after["containers"]} == after


class Gated(NamedTuple):
    """The gate, and a storage's file of a tenant that declares a writing accessor."""

    gate: IsolationGate
    entitlements: Entitlements
    path: str
    waiting: bytes
    ready: bytes

    def check(self, manifests: list[dict[str, Any]]) -> None:
        self.gate.check(self.path, dump(manifests), self.entitlements)


def gated(root: Path, storage: str) -> Gated:
    """Return what is rendered before and after the preparation of a storage with a writing accessor."""
    declare_writing(root, storage)
    source, scope = FolderSource(root), Scope("tenant", "studio-kite")
    catalog = check_repository(source, datetime.date.fromisoformat(DAY)).catalog
    folder = read_folder(scope, read_scope(source, scope).files)[0]
    path = f"eu-1/tenants/studio-kite/storage/{storage}.rendered.yaml"
    files = [dict(render_tenant(catalog, folder, state))[path] for state in (UNKNOWN_STATE, ALL_PREPARED)]
    entitlements = Entitlements.from_declarations(catalog, catalog.clusters["eu-1"], folder)
    return Gated(build_gate(catalog), entitlements, path, *files)


def by_kind(data: bytes) -> dict[str, dict[str, Any]]:
    return {manifest["kind"]: manifest for manifest in load(data)}


def test_nothing_is_written_before_the_storage_is_prepared(sample: Path) -> None:
    declared = gated(sample, CACHE)
    waiting, ready = pod(by_kind(declared.waiting)), pod(by_kind(declared.ready))
    assert waiting["containers"][0]["args"] == READER_ARGS
    assert waiting["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data", "readOnly": True}]
    assert waiting["volumes"][0]["persistentVolumeClaim"]["readOnly"] is True
    assert "--allow-upload" in ready["containers"][0]["args"]
    assert ready["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": CACHE}}]
    for data in (declared.waiting, declared.ready):
        declared.check(load(data))


BREAKS: dict[str, Callable[[dict[str, Any], list[dict[str, Any]]], object]] = {
    "links that lead out": lambda pod, rules: pod["containers"][0]["args"].append("--allow-symlink"),
    "pages of other origins": lambda pod, rules: pod["containers"][0]["args"].append("--enable-cors"),
    "all that the server can": lambda pod, rules: pod["containers"][0]["args"].append("--allow-all"),
    "hidden files": lambda pod, rules: pod["containers"][0]["args"].__delitem__(slice(3, 5)),
    "another volume": lambda pod, rules: pod["volumes"][0]["persistentVolumeClaim"].update(claimName="base"),
    "a root that it may write": lambda pod, rules: pod["containers"][0]["securityContext"].update(
        readOnlyRootFilesystem=False
    ),
    "a Viewer who uploads": lambda pod, rules: rules[-1]["operation"]["methods"].append("PUT"),
    "a Viewer with every method": lambda pod, rules: rules[-1].pop("operation"),
    "a Viewer by another name": lambda pod, rules: rules[-1].update(name="groups"),
    "a Viewer among the writers": lambda pod, rules: rules[0]["principal"]["jwt"]["claims"][0]["values"].append(
        "kite-clients"
    ),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
def test_the_gate_stops_a_writer_that_does_more_than_declared(
    change: Callable[[dict[str, Any], list[dict[str, Any]]], object], sample: Path
) -> None:
    declared = gated(sample, OUTPUTS)
    manifests = load(declared.ready)
    kinds = {manifest["kind"]: manifest for manifest in manifests}
    rules = kinds["SecurityPolicy"]["spec"]["authorization"]["rules"]
    assert rules[-1]["name"].startswith("read-")
    declared.check(manifests)
    change(pod(kinds), rules)
    for _ in range(2):
        with pytest.raises(IsolationBroken):
            declared.check(manifests)


def test_a_viewer_only_reads(sample: Path, allot: Allot, tmp_path: Path) -> None:
    before = objects(allot, sample, tmp_path / "before", OUTPUTS)["SecurityPolicy"]["spec"]
    declare_writing(sample, OUTPUTS)
    after = objects(allot, sample, tmp_path / "after", OUTPUTS)["SecurityPolicy"]["spec"]
    assert {**before, "authorization": None} == {**after, "authorization": None}, "the login stays as it is"
    assert after["authorization"]["defaultAction"] == "Deny"
    rules = after["authorization"]["rules"]
    values = {rule["name"]: (rule.get("operation"), rule["principal"]["jwt"]["claims"][0]["values"]) for rule in rules}
    assert all((operation == READ) == name.startswith("read-") for name, (operation, _) in values.items())
    writers = {value for operation, admitted in values.values() if operation is None for value in admitted}
    readers = {value for operation, admitted in values.values() if operation == READ for value in admitted}
    everybody = {
        value for rule in before["authorization"]["rules"] for value in rule["principal"]["jwt"]["claims"][0]["values"]
    }
    assert writers | readers == everybody
    assert readers and not writers & readers
