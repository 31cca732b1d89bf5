"""The commands that read a repository with many tenants: the catalog, the status, and a diagnosis of the cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.branch import Branch
from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import TenantStatus
from tests.bench.measure import Say, median, run
from tests.bench.publishing import git
from tests.bench.year import at, commit, instance, storage

TIMES = 3


def queries(repo: Path, work: Path, allot: list[str], say: Say) -> None:
    """Measure, on a repository that `publishing` has published to a remote."""
    remote = work / "remote.git"
    git(repo, "remote", "add", "origin", str(remote))
    git(repo, "push", "-q", "origin", "HEAD:refs/heads/main")
    write_statuses(repo, remote)
    tenant = next((repo / "tenants").glob("ateam-0*")).name
    tree = work / "tree"
    git(tree, "fetch", "-q", "origin", "rendered/eu-1")
    git(tree, "reset", "-q", "--hard", "FETCH_HEAD")
    for what, words in (
        ("allot catalog", ["catalog"]),
        (f"allot catalog --tenant {tenant}", ["catalog", "--tenant", tenant]),
        ("allot status", ["status"]),
        (f"allot status {tenant}", ["status", tenant]),
        ("allot doctor, of the repository", ["doctor"]),
    ):
        _measure(what, [*allot, *words, "--repo", str(repo)], say)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.apiserver", str(tree)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        kubeconfig = work / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(url=url))
        words = ["doctor", "--cluster", "eu-1", "--kubeconfig", str(kubeconfig), "--repo", str(repo)]
        _measure("allot doctor --cluster, all objects of tenants compared", [*allot, *words], say)
        server.kill()


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: bench, cluster: {{server: "{url}"}}}}]
users: [{{name: bench, user: {{}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
current-context: bench
"""


def _measure(what: str, words: list[str], say: Say) -> None:
    """Say the median of a command, which may find problems, and the peak of its memory."""
    runs = [run(words, memory=True, expected=(0, 1)) for _ in range(TIMES)]
    middle = median(runs)
    say(what, f"{middle.seconds:6.2f} s  {middle.megabytes:4.0f} MB  CPU {middle.cpu_seconds:.2f} s; goal 2 s")


def write_statuses(repo: Path, remote: Path) -> None:
    """Write the status of every tenant that is declared, as a reporter would."""
    tenants = sorted(path.name for path in (repo / "tenants").iterdir())
    statuses = {}
    for tenant in tenants:
        files = sorted((repo / "tenants" / tenant).glob("*/*.yaml"))
        blobs = {(file.parent.name, file.stem): compute_blob_id(file.read_bytes()) for file in files}
        statuses[tenant] = TenantStatus(
            tenant,
            "eu-1",
            instances=tuple(
                msgspec.structs.replace(instance(name, "Running", at(0, 0, 0)), observed_blob=blob)
                for (folder, name), blob in blobs.items()
                if folder == "instances"
            ),
            storages=tuple(
                msgspec.structs.replace(storage(name), observed_blob=blob)
                for (folder, name), blob in blobs.items()
                if folder == "storages"
            ),
        )
    repository = Repository(repo)
    branch = Branch(repository, "eu-1", None, None, None)
    commit(repository, Remote(repository, str(remote)), branch, statuses, tenants, at(0, 0, 0))
