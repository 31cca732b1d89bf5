"""A cluster with secrets for image pulls, and references to secrets of a store."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from allotment.manifests import names
from tests.conftest import copy_sample
from tests.controlplane import rendered
from tests.controlplane.client import Object, refusal
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import Render
from tests.support.secret_store import declare_image_pull
from tests.support.waiting import eventually

SPACE, OTHER = names.namespace("studio-kite"), names.namespace("film-house")
PATH = "reads only below the tenant's own path"


def reference(key: str = "tenants/studio-kite/huggingface", **more: Any) -> Object:
    """Return an ExternalSecret that the namespace takes; `more` replaces fields of its spec."""
    spec: Object = {
        "secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"},
        "refreshInterval": "1h0m0s",
        "target": {"name": "key--secret", "creationPolicy": "Owner", "deletionPolicy": "Retain"},
        "data": [{"secretKey": "token", "remoteRef": {"key": key}}],
    }
    metadata = {"name": "key--secret", "namespace": SPACE}
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": metadata,
        "spec": {**spec, **more},
    }


def words(cluster: Cluster, manifest: Object) -> str | None:
    """Return the reason why an object is refused; None when it is accepted."""
    return refusal(cluster.client.apply, deepcopy(manifest), dry_run=True)


PULL = {"type": "kubernetes.io/dockerconfigjson", "engineVersion": "v2", "mergePolicy": "Replace"}
ADMISSION = "platform/cluster/admission.rendered.yaml"


def pull(
    name: str, key: str, more: Object | None = None, secret_key: str = ".dockerconfigjson", **field: str
) -> Object:
    """Return an ExternalSecret for a pull credential; `more` replaces fields of its template."""
    target = {"name": name, "creationPolicy": "Owner", "template": {**PULL, **(more or {})}}
    manifest = reference(target=target, data=[{"secretKey": secret_key, "remoteRef": {"key": key, **field}}])
    manifest["metadata"]["name"] = name
    return manifest


@pytest.fixture(scope="module")
def pull_tree(render: Render, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample's tree for eu-1 with pull credentials of solo-ada and of the platform."""
    root = tmp_path_factory.mktemp("pull")
    copy_sample(root)
    declare_image_pull(root)
    return render(root, "eu-1")


@pytest.fixture(scope="module")
def pull_cluster(sample_cluster: Cluster, sample_tree: Path, pull_tree: Path) -> Iterator[Cluster]:
    """Return the cluster with the sample, whose policy permits the platform's pull credential."""
    platform, client = pull("image-pull--platform", "platform/registry", property="config"), sample_cluster.client
    client.apply(*rendered.objects(pull_tree, ADMISSION))
    eventually(lambda: words(sample_cluster, platform) is None, "the policy to permit the platform's credential", 60)
    yield sample_cluster
    client.apply(*rendered.objects(sample_tree, ADMISSION))
    eventually(lambda: words(sample_cluster, platform) is not None, "the policy of the sample", 60)
