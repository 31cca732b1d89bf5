"""The cloud that these modules share. Each module declares resources under names of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.gitea import BOT, Gitea
from tests.e2e.cloud import Cloud
from tests.support.published import git

PLAN = "platform/plans/starter.yaml"
# The tenant of most tests has as many resources as all modules together declare.
QUOTA = (
    (PLAN, "nvidia-l4: 1\n    instances: 3\n    storages: 5\n", "nvidia-l4: 10\n    instances: 30\n    storages: 30\n"),
    (PLAN, "storage: 500Gi", "storage: 5Ti"),
)


@pytest.fixture(scope="package")
def cloud(
    start_cloud: Callable[..., AbstractContextManager[Cloud]],
    cluster: Cluster,
    gitea: Gitea,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    """Return a cloud that publishes, reports eu-1 and comments, all in one process: that which holds the Lease."""
    token = tmp_path_factory.mktemp("forge") / "token"
    token.write_text(gitea.tokens[BOT])
    options = ("--lease", "default/allot-run", "--comment", "--forge-token-file", str(token))
    with start_cloud(*options, edits=QUOTA) as shared_cloud:
        yield shared_cloud
    cluster.client.delete("coordination.k8s.io/v1", "Lease", "allot-run", "default")


@pytest.fixture(scope="module")
def restored_declarations(cloud: Cloud) -> Iterator[None]:
    """Let the next module have the declarations that were there before this one."""
    before = git(cloud.root, "rev-parse", "HEAD")
    yield
    git(cloud.root, "pull", "-q", "--ff-only", cloud.url, "main")
    git(cloud.root, "restore", "--source", before, "--staged", "--worktree", ".")
    cloud.merged()
    cloud.changes_synced()
