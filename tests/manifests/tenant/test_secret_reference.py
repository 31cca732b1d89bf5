"""A SecretReference becomes an ExternalSecret below the tenant's own path, and a variable of the instance reads its Secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, Allot, edit
from tests.support.rendered_tree import misfits
from tests.support.secret_store import (
    CLUSTER,
    INSTANCE,
    NAMESPACE,
    PLATFORM_PULL,
    PULL_REFERENCE,
    PULL_RENDERED,
    REFERENCE,
    RENDERED,
    RESTARTS,
    STORE,
    declare_all,
    declare_image_pull,
    declare_source_secret,
)

from allotment.manifests.yaml_text import load

READING = {"conversionStrategy": "Default", "decodingStrategy": "None", "metadataPolicy": "None"}


def render(allot: Allot, root: Path, path: str) -> list[dict[str, Any]]:
    result = allot("render", "--repo", root, "--out", root / "out", "--as-of", DAY)
    assert result.code == 0, result
    return load((root / "out" / path).read_bytes())


def test_an_external_secret_reads_below_the_tenants_path(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    (manifest,) = render(allot, sample, RENDERED)
    assert misfits(manifest) == []
    assert manifest["metadata"]["name"] == "huggingface--secret"
    assert manifest["metadata"]["namespace"] == "t-solo-ada"
    assert manifest["spec"] == {
        "secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"},
        "refreshInterval": "1h0m0s",
        "target": {"name": "huggingface--secret", "creationPolicy": "Owner", "deletionPolicy": "Retain"},
        "data": [
            {"secretKey": "org", "remoteRef": {"key": "tenants/solo-ada/team/huggingface-org", **READING}},
            {
                "secretKey": "token",
                "remoteRef": {"key": "tenants/solo-ada/huggingface", "property": "token", **READING},
            },
        ],
    }


def test_the_cluster_declares_the_prefix(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    edit(sample, CLUSTER, "    name: vault\n", "    name: vault\n    prefix: gpu/eu-1\n")
    edit(sample, REFERENCE, "  keys:\n", "  refreshInterval: 90s\n  keys:\n")
    (manifest,) = render(allot, sample, RENDERED)
    assert manifest["spec"]["data"][1]["remoteRef"]["key"] == "gpu/eu-1/solo-ada/huggingface"
    assert manifest["spec"]["refreshInterval"] == "1m30s"


def test_a_variable_reads_the_secret(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    deployment = render(allot, sample, "eu-1/tenants/solo-ada/compute/webui.rendered.yaml")[0]
    assert misfits(deployment) == []
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "huggingface--secret", "key": "token"}},
    } in container["env"]


def test_the_job_of_a_source_reads_the_secret_that_the_reference_creates(sample: Path, allot: Allot) -> None:
    declare_source_secret(sample)
    manifests = render(allot, sample, "eu-1/tenants/uni-lab/storage/papers.rendered.yaml")
    (job,) = [manifest for manifest in manifests if manifest["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert [variable["valueFrom"]["secretKeyRef"] for variable in container["env"] if "valueFrom" in variable] == [
        {"name": "s3-keys--secret", "key": "AWS_ACCESS_KEY_ID"},
        {"name": "s3-keys--secret", "key": "AWS_SECRET_ACCESS_KEY"},
    ]


def test_a_pull_credential_has_the_type_that_kubernetes_demands(sample: Path, allot: Allot) -> None:
    declare_image_pull(sample)
    (manifest,) = render(allot, sample, PULL_RENDERED)
    assert misfits(manifest) == []
    assert manifest["metadata"]["name"] == "registry--image-pull"
    assert manifest["spec"]["target"] == {
        "name": "registry--image-pull",
        "creationPolicy": "Owner",
        "deletionPolicy": "Retain",
        "template": {"type": "kubernetes.io/dockerconfigjson", "engineVersion": "v2", "mergePolicy": "Replace"},
    }
    reference = {"key": "tenants/solo-ada/registry", **READING}
    assert manifest["spec"]["data"] == [{"secretKey": ".dockerconfigjson", "remoteRef": reference}]


def test_all_pods_of_a_tenant_pull_with_its_credential_and_the_platforms(sample: Path, allot: Allot) -> None:
    declare_image_pull(sample)
    account, external_secret = pull_objects(render(allot, sample, NAMESPACE))
    assert misfits(account) == misfits(external_secret) == []
    assert account["metadata"]["name"] == "default"
    assert account["imagePullSecrets"] == [{"name": "registry--image-pull"}, {"name": "image-pull--platform"}]
    assert external_secret["metadata"]["name"] == "image-pull--platform"
    reference = {"key": "platform/registry", "property": "config", **READING}
    assert external_secret["spec"]["data"] == [{"secretKey": ".dockerconfigjson", "remoteRef": reference}]


def test_a_credential_restarts_no_instance(sample: Path, allot: Allot) -> None:
    path = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    before = render(allot, sample, path)
    declare_image_pull(sample)
    assert render(allot, sample, path) == before


def test_a_namespace_without_a_credential_has_the_account_of_kubernetes(sample: Path, allot: Allot) -> None:
    declare_image_pull(sample)
    edit(sample, CLUSTER, PLATFORM_PULL, "")
    assert [each["kind"] for each in pull_objects(render(allot, sample, NAMESPACE))] == ["ServiceAccount"]
    (sample / PULL_REFERENCE).unlink()
    assert pull_objects(render(allot, sample, NAMESPACE)) == []


def test_a_change_of_a_secret_restarts_the_instance_that_declares_it(sample: Path, allot: Allot) -> None:
    path = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    declare_all(sample)
    edit(sample, CLUSTER, STORE, STORE + RESTARTS)
    keeping = render(allot, sample, path)[0]
    edit(sample, INSTANCE, "  container:\n    env:\n", "  onSecretChange: Restart\n  container:\n    env:\n")
    restarting = render(allot, sample, path)[0]
    assert misfits(restarting) == []
    annotations = restarting["metadata"]["annotations"]
    assert annotations["secret.reloader.stakater.com/reload"] == "huggingface--secret"
    assert restarting["spec"] == keeping["spec"]


def pull_objects(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ServiceAccount and the ExternalSecret of a namespace."""
    return [each for each in objects if each["kind"] in ("ServiceAccount", "ExternalSecret")]
