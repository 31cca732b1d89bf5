"""The gate lets an ExternalSecret read only below the tenant's own path, newly rendered or published before."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from tests.conftest import copy_sample
from tests.support.secret_policy import ADMISSION, WEBUI, Bed, Manifest, render_bed
from tests.support.secret_store import CLUSTER, RENDERED, declare_all

from allotment.isolation.gate import IsolationGate
from allotment.isolation.patterns import AnyOf
from allotment.manifests.yaml_text import dump
from allotment.problems import IsolationBroken


def first(manifest: Manifest) -> Manifest:
    """Return the first reference to a value."""
    reference: Manifest = manifest["spec"]["data"][0]["remoteRef"]
    return reference


BREAKS: dict[str, Callable[[Manifest], object]] = {
    "another tenant's path": lambda o: first(o).update(key="tenants/studio-kite/huggingface"),
    "a path that begins alike": lambda o: first(o).update(key="tenants/solo-ada-2/huggingface"),
    "the tenant's folder itself": lambda o: first(o).update(key="tenants/solo-ada/"),
    "a path that leads out": lambda o: first(o).update(key="tenants/solo-ada/../studio-kite/huggingface"),
    "a path from the root": lambda o: first(o).update(key="/tenants/solo-ada/huggingface"),
    "a path with a control character": lambda o: first(o).update(key="tenants/solo-ada/x\ty"),
    "a path with a query": lambda o: first(o).update(key="tenants/solo-ada/x?version=1"),
    "a path outside the prefix": lambda o: first(o).update(key="platform/solo-ada/huggingface"),
    "a version": lambda o: first(o).update(version="1"),
    "tags of the value": lambda o: first(o).update(metadataPolicy="Fetch"),
    "another decoding": lambda o: first(o).update(decodingStrategy="Auto"),
    "another store": lambda o: o["spec"]["secretStoreRef"].update(name="platform"),
    "a store of the namespace": lambda o: o["spec"]["secretStoreRef"].update(kind="SecretStore"),
    "no store": lambda o: o["spec"].pop("secretStoreRef"),
    "a store of one value": lambda o: o["spec"]["data"][0].update(sourceRef={"storeRef": {"name": "platform"}}),
    "all that the store has": lambda o: o["spec"].update(dataFrom=[{"find": {"name": {"regexp": ".*"}}}]),
    "a generator": lambda o: o["spec"].update(dataFrom=[{"sourceRef": {"generatorRef": {"name": "x"}}}]),
    "a template": lambda o: o["spec"]["target"].update(template={"type": "kubernetes.io/service-account-token"}),
    "an object of another kind": lambda o: o["spec"]["target"].update(manifest={"kind": "Role"}),
    "the Secret of a bucket": lambda o: o["spec"]["target"].update(name="models"),
    "a Secret that has another owner": lambda o: o["spec"]["target"].update(creationPolicy="Merge"),
    "a Secret that goes with the value": lambda o: o["spec"]["target"].update(deletionPolicy="Delete"),
    "another name": lambda o: o["metadata"].update(name="oidc"),
    "another namespace": lambda o: o["metadata"].update(namespace="t-studio-kite"),
    "another tenant's label": lambda o: o["metadata"]["labels"].update({"allotment.dev/tenant": "studio-kite"}),
    "no expiry": lambda o: o["spec"].update(refreshInterval="0s"),
    "every second": lambda o: o["spec"].update(refreshInterval="1s"),
    "every half minute": lambda o: o["spec"].update(refreshInterval="0m30s"),
    "a policy of refreshing": lambda o: o["spec"].update(refreshPolicy="CreatedOnce"),
    "another version": lambda o: o.update(apiVersion="external-secrets.io/v1beta1"),
    "a store as an object": lambda o: o.update(kind="SecretStore"),
    "a push": lambda o: o.update(kind="PushSecret", apiVersion="external-secrets.io/v1alpha1"),
}
# A published object may have these values, because they give the tenant no further secret.
HARMLESS = {
    "tags of the value",
    "another decoding",
    "a Secret that has another owner",
    "a Secret that goes with the value",
    "no expiry",
    "every second",
    "every half minute",
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    root = tmp_path_factory.mktemp("secrets")
    copy_sample(root / "repo")
    declare_all(root / "repo")
    return render_bed(root / "repo")


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
def test_the_gate_accepts_a_rendered_external_secret(bed: Bed, published: bool) -> None:
    for path in (RENDERED, WEBUI, ADMISSION):
        for _ in range(2):  # the second time, by its frame
            bed.check(path, bed.objects(path), published=published)


@pytest.mark.parametrize("name", BREAKS)
def test_nothing_else_is_rendered(bed: Bed, name: str) -> None:
    (manifest,) = bed.objects(RENDERED)
    BREAKS[name](manifest)
    with pytest.raises(IsolationBroken):
        bed.check(RENDERED, [manifest])


@pytest.mark.parametrize("name", sorted(BREAKS.keys() - HARMLESS))
def test_nothing_else_stays_published(bed: Bed, name: str) -> None:
    (manifest,) = bed.objects(RENDERED)
    BREAKS[name](manifest)
    with pytest.raises(IsolationBroken):
        bed.check(RENDERED, [manifest], published=True)
    assert bed.gate.drop_forbidden(RENDERED, dump([manifest]))[0] == b""


@pytest.mark.parametrize("name", ["vault-token", "models--files", "huggingface--secret--x", "--secret"])
def test_a_variable_reads_only_a_secret_of_a_reference(bed: Bed, name: str) -> None:
    objects = bed.objects(WEBUI)
    (container,) = objects[0]["spec"]["template"]["spec"]["containers"]
    (variable,) = (each for each in container["env"] if "valueFrom" in each)
    variable["valueFrom"]["secretKeyRef"]["name"] = name
    with pytest.raises(IsolationBroken):
        bed.check(WEBUI, objects)


def test_a_cluster_without_a_store_has_no_external_secret(bed: Bed) -> None:
    without = {
        name: boundary._replace(
            secret_store=None,
            values={**boundary.values, **dict.fromkeys(("secret-store", "secret-prefix"), AnyOf())},
        )
        for name, boundary in bed.gate.clusters.items()
    }
    gate, data = IsolationGate(without), dump(bed.objects(RENDERED))
    for published in (False, True):
        with pytest.raises(IsolationBroken):
            gate.check(RENDERED, data, bed.entitlements, published=published)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tenants/", "platform/"),
        ("== 'vault'", "!= ''"),
        ("!has(object.spec.dataFrom)", "true"),
        ("object.metadata.name.endsWith('--secret')", "true"),
    ],
)
def test_the_admission_policy_is_not_weaker(bed: Bed, old: str, new: str) -> None:
    objects = bed.objects(ADMISSION)
    policy = next(each for each in objects if each["metadata"]["name"] == "allotment-tenant-secrets")
    before = copy.deepcopy(policy)
    for validation in policy["spec"]["validations"]:
        validation["expression"] = validation["expression"].replace(old, new)
    assert policy != before
    with pytest.raises(IsolationBroken):
        bed.check(ADMISSION, objects)


def test_only_a_cluster_with_a_store_has_the_policy(bed: Bed) -> None:
    assert CLUSTER.startswith("clusters/eu-1")
    names = {
        path: [each["metadata"]["name"] for each in bed.objects(path)]
        for path in (ADMISSION, ADMISSION.replace("eu-1", "us-1"))
    }
    assert ["allotment-tenant-secrets" in each for each in names.values()] == [True, False]


@pytest.mark.parametrize(("cluster", "permitted"), [("eu-1", True), ("us-1", False)])
def test_a_project_permits_external_secrets_only_where_a_policy_restricts_them(
    bed: Bed, cluster: str, permitted: bool
) -> None:
    path = f"{cluster}/control/argo/m/ml-orbit.rendered.yaml"
    objects = bed.objects(path)
    bed.gate.check(path, dump(objects), bed.of_orbit[cluster])
    kinds = objects[0]["spec"]["namespaceResourceWhitelist"]
    kind = {"group": "external-secrets.io", "kind": "ExternalSecret"}
    assert (kind in kinds) == permitted
    if not permitted:
        kinds.insert([each["group"] for each in kinds].index("batch") + 1, kind)
        with pytest.raises(IsolationBroken):
            bed.gate.check(path, dump(objects), bed.of_orbit[cluster])
