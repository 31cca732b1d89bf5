"""The cloud that these modules share. Each module declares resources under names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.argocd import ArgoCD
from tests.controlplane.cluster import Cluster
from tests.controlplane.gitea import Gitea
from tests.e2e.cloud import Cloud
from tests.e2e.conftest import a_cloud, emptied

PLAN = "platform/plans/starter.yaml"
# The tenant of most tests has as many resources as all modules together declare.
QUOTA = (
    (PLAN, "nvidia-l4: 1\n    instances: 3\n    storages: 5\n", "nvidia-l4: 10\n    instances: 30\n    storages: 30\n"),
    (PLAN, "storage: 500Gi", "storage: 5Ti"),
)


@pytest.fixture(scope="package")
def reported_cloud(
    cluster: Cluster,
    growing_cluster: Cluster,
    argocd: ArgoCD,
    gitea: Gitea,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    """Return a cloud whose cluster eu-1 is reported too, as quickly as it changes, by who holds the Lease."""
    clusters = {"eu-1": cluster, "us-1": growing_cluster}
    options = ("--report", "eu-1", "--kubeconfig", str(cluster.kubeconfig), "--report-interval", "1")
    lease = ("--lease", "default/allot-run")
    folder = tmp_path_factory.mktemp("cloud")
    with emptied(cluster), a_cloud(clusters, argocd, gitea, folder, *options, *lease, edits=QUOTA) as shared_cloud:
        yield shared_cloud
    cluster.client.delete("coordination.k8s.io/v1", "Lease", "allot-run", "default")
