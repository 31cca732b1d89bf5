"""The cluster that these modules share: the sample, applied once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.manifests.names import namespace
from tests.controlplane import rendered
from tests.controlplane.client import refusal
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import emptied
from tests.support.waiting import eventually


@pytest.fixture(scope="package")
def sample_cluster(cluster: Cluster, sample_tree: Path) -> Iterator[Cluster]:
    """Return the cluster with the whole sample applied, its admission policies in force: they need a moment."""
    client = cluster.client
    with emptied(cluster):
        client.apply(*rendered.objects(sample_tree))
        protected = namespace("studio-kite")
        eventually(lambda: refusal(client.delete, "v1", "Namespace", protected, dry_run=True), "protection")
        yield cluster
