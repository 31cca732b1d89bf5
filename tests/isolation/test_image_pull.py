"""The gate lets pods pull images only with the credentials of their tenant and of the platform, and lets no variable read one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import DAY, copy_sample
from tests.support.secret_policy import ADMISSION, WEBUI, Bed
from tests.support.secret_store import NAMESPACE, PULL_RENDERED, declare_all, declare_image_pull

from allotment.isolation.gate import IsolationGate
from allotment.isolation.patterns import AnyOf
from allotment.manifests.yaml_text import dump, load
from allotment.problems import IsolationBroken

Manifest = dict[str, Any]
TEMPLATE = {"type": "kubernetes.io/dockerconfigjson", "engineVersion": "v2", "mergePolicy": "Replace"}


def template(**more: Any) -> Callable[[Manifest], object]:
    """Return a change of the template's fields."""
    return lambda o: o["spec"]["target"]["template"].update(more)


def first(manifest: Manifest) -> Manifest:
    """Return the reference to the value."""
    reference: Manifest = manifest["spec"]["data"][0]["remoteRef"]
    return reference


SHARED_BREAKS: dict[str, Callable[[Manifest], object]] = {
    "the token of a ServiceAccount": template(type="kubernetes.io/service-account-token"),
    "data of its own": template(data={".dockerconfigjson": "{}"}),
    "a template from a ConfigMap": template(templateFrom=[{"configMap": {"name": "x", "items": [{"key": "y"}]}}]),
    "metadata": template(metadata={"annotations": {"kubernetes.io/service-account.name": "default"}}),
    "merged data": template(mergePolicy="Merge"),
    "no template": lambda o: o["spec"]["target"].pop("template"),
    "another key": lambda o: o["spec"]["data"][0].update(secretKey="token"),
    "two keys": lambda o: o["spec"]["data"].append({**o["spec"]["data"][0], "secretKey": "token"}),
    "another tenant's path": lambda o: first(o).update(key="tenants/studio-kite/registry"),
    "another store": lambda o: o["spec"]["secretStoreRef"].update(name="platform"),
    "all that the store has": lambda o: o["spec"].update(dataFrom=[{"find": {"name": {"regexp": ".*"}}}]),
    "the Secret of a variable": lambda o: o["spec"]["target"].update(name="huggingface--secret"),
    "another namespace": lambda o: o["metadata"].update(namespace="t-studio-kite"),
}
TENANT_BREAKS = SHARED_BREAKS | {
    "the platform's path": lambda o: first(o).update(key="platform/registry"),
    "the name of the platform's": lambda o: (
        o["metadata"].update(name="image-pull--platform"),
        o["spec"]["target"].update(name="image-pull--platform"),
    ),
    "the name of a variable's Secret": lambda o: (
        o["metadata"].update(name="registry--secret"),
        o["spec"]["target"].update(name="registry--secret"),
    ),
}
PLATFORM_BREAKS = SHARED_BREAKS | {
    "the tenant's path": lambda o: first(o).update(key="tenants/solo-ada/registry"),
    "a path below": lambda o: first(o).update(key="platform/registry/x"),
    "another field": lambda o: first(o).update(property="root"),
    "the whole value": lambda o: first(o).pop("property"),
    "a version": lambda o: first(o).update(version="1"),
    "the name of a tenant's": lambda o: (
        o["metadata"].update(name="registry--image-pull"),
        o["spec"]["target"].update(name="registry--image-pull"),
    ),
    "a policy of refreshing": lambda o: o["spec"].update(refreshPolicy="CreatedOnce"),
}
ACCOUNT_BREAKS: dict[str, Callable[[Manifest], object]] = {
    "the Secret of a variable": lambda o: o["imagePullSecrets"].append({"name": "huggingface--secret"}),
    "another Secret": lambda o: o["imagePullSecrets"].append({"name": "oidc"}),
    "a credential that nobody declares": lambda o: o["imagePullSecrets"].append({"name": "other--image-pull"}),
    "no credential": lambda o: o.pop("imagePullSecrets"),
    "a token": lambda o: o.update(automountServiceAccountToken=True),
    "Secrets": lambda o: o.update(secrets=[{"name": "oidc"}]),
    "a role of the cloud": lambda o: o["metadata"]["annotations"].update({"eks.amazonaws.com/role-arn": "arn"}),
    "another account": lambda o: o["metadata"].update(name="admin"),
    "another namespace": lambda o: o["metadata"].update(namespace="kube-system"),
}
# A published object may be older than the declarations, so that the gate doesn't compare it with them.
DECLARED = {"a credential that nobody declares", "no credential"}
NAMESPACE_BREAKS = {("ExternalSecret", name): change for name, change in PLATFORM_BREAKS.items()} | {
    ("ServiceAccount", name): change for name, change in ACCOUNT_BREAKS.items()
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    root = tmp_path_factory.mktemp("image-pull")
    copy_sample(root / "repo")
    declare_all(root / "repo")
    declare_image_pull(root / "repo")
    run = [sys.executable, "-m", "allotment", "render", "--repo", str(root / "repo"), "--out", str(root / "out")]
    subprocess.run([*run, "--as-of", str(DAY)], check=True, capture_output=True)
    return Bed(root / "repo", root / "out")


def break_namespace(bed: Bed, kind: str, name: str) -> list[Manifest]:
    """Return the objects of the namespace, one of them broken."""
    objects = bed.objects(NAMESPACE)
    (manifest,) = (each for each in objects if each["kind"] == kind)
    NAMESPACE_BREAKS[kind, name](manifest)
    return objects


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
def test_the_gate_accepts_rendered_image_pull_credentials(bed: Bed, published: bool) -> None:
    for path in (PULL_RENDERED, NAMESPACE, WEBUI, ADMISSION):
        for _ in range(2):  # the second time, by its frame
            bed.check(path, bed.objects(path), published=published)


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
@pytest.mark.parametrize("name", TENANT_BREAKS)
def test_a_tenants_credential_has_nothing_else(bed: Bed, name: str, published: bool) -> None:
    (manifest,) = bed.objects(PULL_RENDERED)
    TENANT_BREAKS[name](manifest)
    with pytest.raises(IsolationBroken):
        bed.check(PULL_RENDERED, [manifest], published=published)


@pytest.mark.parametrize(("kind", "name"), NAMESPACE_BREAKS)
def test_a_namespace_has_nothing_else(bed: Bed, kind: str, name: str) -> None:
    with pytest.raises(IsolationBroken):
        bed.check(NAMESPACE, break_namespace(bed, kind, name))


@pytest.mark.parametrize(("kind", "name"), [key for key in NAMESPACE_BREAKS if key[1] not in DECLARED])
def test_nothing_else_stays_published(bed: Bed, kind: str, name: str) -> None:
    objects = break_namespace(bed, kind, name)
    with pytest.raises(IsolationBroken):
        bed.check(NAMESPACE, objects, published=True)


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
@pytest.mark.parametrize("name", ["image-pull--platform", "registry--image-pull"])
def test_no_variable_reads_a_credential(bed: Bed, name: str, published: bool) -> None:
    objects = bed.objects(WEBUI)
    (container,) = objects[0]["spec"]["template"]["spec"]["containers"]
    (variable,) = (each for each in container["env"] if "valueFrom" in each)
    variable["valueFrom"]["secretKeyRef"] = {"name": name, "key": ".dockerconfigjson"}
    with pytest.raises(IsolationBroken):
        bed.check(WEBUI, objects, published=published)


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
@pytest.mark.parametrize("kind", ["ExternalSecret", "ServiceAccount"])
def test_the_files_of_a_tenant_have_no_such_objects(bed: Bed, kind: str, published: bool) -> None:
    (manifest,) = (each for each in bed.objects(NAMESPACE) if each["kind"] == kind)
    del manifest["metadata"]["annotations"]
    with pytest.raises(IsolationBroken):
        bed.check(WEBUI, [*bed.objects(WEBUI), manifest], published=published)


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
def test_a_cluster_without_a_credential_of_the_platform_has_none(bed: Bed, published: bool) -> None:
    def without(boundary: Any) -> Any:
        if boundary.secret_store is None:
            return boundary
        store = boundary.secret_store.model_copy(update={"image_pull": None})
        slots = ("image-pull-path", "image-pull-property", "image-pull-reference")
        return boundary._replace(secret_store=store, values={**boundary.values, **dict.fromkeys(slots, AnyOf())})

    gate = IsolationGate({name: without(boundary) for name, boundary in bed.gate.clusters.items()})
    with pytest.raises(IsolationBroken):
        gate.check(NAMESPACE, dump(bed.objects(NAMESPACE)), bed.entitlements, published=published)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("== 'platform/registry'", "!= ''"),
        ("== 'config'", "!= ''"),
        ("== 'kubernetes.io/dockerconfigjson'", "!= ''"),
        ("!object.spec.?target.?template.?data.hasValue()", "true"),
        ("== ['.dockerconfigjson']", "!= []"),
        ("== 'image-pull--platform'", "!= ''"),
    ],
)
def test_the_admission_policy_is_not_weaker(bed: Bed, old: str, new: str) -> None:
    text = (bed.tree / ADMISSION).read_text("utf-8")
    assert old in text
    with pytest.raises(IsolationBroken):
        bed.check(ADMISSION, load(text.replace(old, new).encode()))
