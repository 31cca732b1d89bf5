"""The gate lets the SSH gateway connect only the people and instances that a tenant declares, and only this gateway."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DAY, copy_sample

from allotment.adapters.folder_source import FolderSource
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import IsolationGate
from allotment.manifests.yaml_text import dump, load
from allotment.problems import IsolationBroken
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope
from allotment.services.publish.renderer import build_gate

Manifest = dict[str, Any]
NAMESPACE = "eu-1/control/namespaces/s/solo-ada.rendered.yaml"
TREE = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJKnB5nhnYc0/s+45ZqpMOnzhvdkUFmh8vBOuEg8m18d"

CONFIG_MAP_BREAKS: dict[str, Callable[[Manifest], object]] = {
    "another key": lambda o: o["data"].update(authorized_keys=o["data"]["authorized_keys"] + f"{KEY} eve\n"),
    "a key with options": lambda o: o["data"].update(authorized_keys=f'command="sh" {KEY} ada\n'),
    "no key": lambda o: o["data"].update(authorized_keys=""),
    "another instance": lambda o: o["data"].update(instances="trainer\nwebui\n"),
    "addresses that nobody declares": lambda o: o["data"].update(allowed_cidrs="0.0.0.0/0\n"),
    "no instances": lambda o: o["data"].pop("instances"),
    "another entry": lambda o: o["data"].update(commands="sh"),
    "binary data": lambda o: o.update(binaryData={"authorized_keys": "AAAA"}),
    "another name": lambda o: o["metadata"].update(name="allot-ssh-2"),
    "another namespace": lambda o: o["metadata"].update(namespace="t-studio-kite"),
}
ROLE_BINDING_BREAKS: dict[str, Callable[[Manifest], object]] = {
    "another role": lambda o: o["roleRef"].update(name="cluster-admin"),
    "a role of the namespace": lambda o: o["roleRef"].update(kind="Role"),
    "everybody": lambda o: o["subjects"].append({"kind": "Group", "name": "system:authenticated"}),
    "another account": lambda o: o["subjects"][0].update(name="default"),
    "an account of the tenant": lambda o: o["subjects"][0].update(namespace="t-solo-ada"),
    "another name": lambda o: o["metadata"].update(name="admin"),
    "another namespace": lambda o: o["metadata"].update(namespace="kube-system"),
}
BREAKS = {("ConfigMap", name): change for name, change in CONFIG_MAP_BREAKS.items()} | {
    ("RoleBinding", name): change for name, change in ROLE_BINDING_BREAKS.items()
}
# A published object may be older than the declarations, so that the gate doesn't compare it with them.
DECLARED = {"another key", "a key with options", "no key", "another instance", "addresses that nobody declares"}
DECLARED |= {"no instances"}


class Bed:
    """A gate, the entitlements of tenants, and the rendered objects."""

    def __init__(self, root: Path, tree: Path) -> None:
        source = FolderSource(root)
        catalog = check_repository(source, datetime.date.fromisoformat(DAY)).catalog
        assert catalog is not None
        self.gate: IsolationGate = build_gate(catalog)
        self.entitlements = {}
        for tenant in ("solo-ada", "studio-kite"):
            scope = Scope("tenant", tenant)
            folder = read_folder(scope, read_scope(source, scope).files)[0]
            self.entitlements[tenant] = Entitlements.from_declarations(catalog, catalog.clusters["eu-1"], folder)
        self.tree = tree

    def objects(self, path: str) -> list[Manifest]:
        return load((self.tree / path).read_bytes())

    def check(self, path: str, objects: list[Manifest], tenant: str = "solo-ada", *, published: bool = False) -> None:
        self.gate.check(path, dump(objects), self.entitlements[tenant], published=published)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    root = tmp_path_factory.mktemp("ssh")
    copy_sample(root / "repo")
    run = [sys.executable, "-m", "allotment", "render", "--repo", str(root / "repo"), "--out", str(root / "out")]
    subprocess.run([*run, "--as-of", str(DAY)], check=True, capture_output=True)
    return Bed(root / "repo", root / "out")


def break_object(bed: Bed, kind: str, name: str) -> list[Manifest]:
    """Return the objects of the namespace, one of them broken."""
    objects = bed.objects(NAMESPACE)
    (manifest,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"] == "allot-ssh")
    BREAKS[kind, name](manifest)
    return objects


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
def test_the_gate_accepts_a_rendered_namespace_with_ssh_access(bed: Bed, published: bool) -> None:
    for _ in range(2):  # the second time, by its frame
        bed.check(NAMESPACE, bed.objects(NAMESPACE), published=published)


@pytest.mark.parametrize(("kind", "name"), BREAKS)
def test_nothing_else_is_rendered(bed: Bed, kind: str, name: str) -> None:
    with pytest.raises(IsolationBroken):
        bed.check(NAMESPACE, break_object(bed, kind, name))


@pytest.mark.parametrize(("kind", "name"), [key for key in BREAKS if key[1] not in DECLARED])
def test_nothing_else_stays_published(bed: Bed, kind: str, name: str) -> None:
    objects = break_object(bed, kind, name)
    with pytest.raises(IsolationBroken):
        bed.check(NAMESPACE, objects, published=True)
    assert bed.gate.drop_forbidden(NAMESPACE, dump(objects))[0] != dump(objects)


def test_a_tenant_without_ssh_admits_no_gateway(bed: Bed) -> None:
    path = "eu-1/control/namespaces/s/studio-kite.rendered.yaml"
    text = dump([each for each in bed.objects(NAMESPACE) if each["metadata"]["name"] == "allot-ssh"])
    foreign = load(text.replace(b"solo-ada", b"studio-kite"))
    for manifest in foreign:
        with pytest.raises(IsolationBroken, match="follows from nothing"):
            bed.check(path, [*bed.objects(path), manifest], "studio-kite")


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
@pytest.mark.parametrize("kind", ["ConfigMap", "RoleBinding"])
def test_the_files_of_a_tenant_have_no_such_objects(bed: Bed, kind: str, published: bool) -> None:
    (manifest,) = (
        each for each in bed.objects(NAMESPACE) if each["kind"] == kind and each["metadata"]["name"] == "allot-ssh"
    )
    del manifest["metadata"]["annotations"]
    with pytest.raises(IsolationBroken):
        bed.check(TREE, [*bed.objects(TREE), manifest], published=published)
