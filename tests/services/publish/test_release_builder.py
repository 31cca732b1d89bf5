"""A release builder that reuses its earlier releases builds the same release as a new builder."""

from __future__ import annotations

import datetime
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.conftest import copy, edit, scale_examples
from tests.support.published import Place, git

from allotment.adapters.file_cache import FileCache
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.branch import Branch
from allotment.branches.platform_settings import read_reporter_keys
from allotment.branches.rendered_branches import read_rendered_branches
from allotment.problems import OperationRefused
from allotment.services.publish import rendered_file_store
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release import Release
from allotment.services.publish.release_builder import ReleaseBuilder
from allotment.services.publish.tenant_retention import PlatformInvalid

DAY = datetime.date(2026, 11, 21)
WEBUI, GROUP = "tenants/solo-ada/instances/webui.yaml", "tenants/uni-lab/instances/group-a.yaml"
KITE = "tenants/studio-kite/instances/webui.yaml"
NEW = "tenants/uni-lab/instances/another.yaml"


def toggle(path: str, value: str, other: str) -> Callable[[Place], None]:
    """Return an edit that replaces one of two values in a file by the other."""

    def change(place: Place) -> None:
        text = (place.root / path).read_text()
        edit(place.root, path, *((value, other) if value in text else (other, value)))

    return change


def come_and_go(source: str, target: str) -> Callable[[Place], None]:
    """Return an edit that copies a file or a tenant's folder under another name, or removes the copy."""

    def change(place: Place) -> None:
        path = place.root / target
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        elif (place.root / source).is_dir():
            shutil.copytree(place.root / source, path)
            for file in path.glob("*.yaml"):
                file.write_text(file.read_text().replace(Path(source).name, path.name))
        else:
            copy(place.root, source, target)

    return change


def push_foreign_commit(place: Place) -> None:
    """Push a commit of somebody else to a rendered branch."""
    clone = place.remote.parent / "foreign"
    git(place.remote.parent, "clone", "-q", "-b", "rendered/eu-1", str(place.remote), str(clone))
    file = clone / "tenants/solo-ada/compute/allotment--marker.rendered.yaml"
    if file.exists():
        file.write_text(f"{file.read_text()}# foreign\n")
    git(clone, "add", "-A")
    git(clone, "-c", "user.name=Eve", "-c", "user.email=eve@x.example", "commit", "-qm", "Foreign", "--allow-empty")
    git(clone, "push", "-q")
    shutil.rmtree(clone)


def add_stock(place: Place) -> None:
    """Add a stock of one unit, or remove it."""
    path = "clusters/eu-1/stocks/l4-more.yaml"
    come_and_go("clusters/eu-1/stocks/l4-whole.yaml", path)(place)
    if (place.root / path).exists():
        edit(place.root, path, re.findall("count: .*", (place.root / path).read_text())[0], "count: 1")


def add_link(place: Place) -> None:
    """Add a symbolic link to the folder of a cluster, which makes the cluster invalid, or remove it."""
    path = place.root / "clusters/us-1/link.yaml"
    if path.is_symlink():
        path.unlink()
    else:
        path.symlink_to("cluster.yaml")


def report_status(place: Place) -> None:
    place.synced("eu-1", "film-house")


CHANGES: dict[str, Callable[[Place], None]] = {
    "a spec": toggle(WEBUI, "l4-quarter", "l4-fifth"),
    "a stopped instance": toggle(GROUP, "state: Running", "state: Stopped"),
    "a stock": toggle("clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 20"),
    "a domain": toggle("clusters/eu-1/cluster.yaml", "domain: eu-1.", "domain: eu-9."),
    "an invalid cluster": toggle("clusters/us-1/cluster.yaml", "domain: us-1.", "domain: -us-1."),
    "a size": toggle("tenants/film-house/storages/loras.yaml", "300Gi", "400Gi"),
    "a quota": toggle("tenants/uni-lab/tenant.yaml", "nvidia-l4: 6", "nvidia-l4: 60"),
    "a larger spec": toggle(KITE, "gpuSpec: l4-quarter", "gpuSpec: l4-whole"),
    "an oversold stock": toggle("clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 1"),
    "an invalid tenant": toggle("tenants/acme-robotics/tenant.yaml", "plan: ", "plan: no-"),
    "a price": toggle("platform/specs/l4-quarter.yaml", 'from: "2026-10-01"', 'from: "2026-09-01"'),
    "an instance": come_and_go(GROUP, NEW),
    "a second stock": add_stock,
    "a tenant": come_and_go("tenants/northlight", "tenants/zeta"),
    "a tenant of us-1": come_and_go("tenants/acme-robotics", "tenants/zeta-robotics"),
    "a foreign commit": push_foreign_commit,
    "a status": report_status,
    "a link": add_link,
}


open_cache = partial(FileCache.load, "publish")


def a_publisher(place: Place) -> Publisher:
    remote = Remote(Repository(place.root), str(place.remote))
    return Publisher(place.root, remote, ReleaseBuilder(processes=1), lambda _: DAY)


def assembled(place: Place, assembler: ReleaseBuilder, publisher: Publisher | None = None) -> Release:
    """Build a release. With a publisher, use its caches of the repository and of the status."""
    publisher = publisher or a_publisher(place)
    source = publisher.switch_to("HEAD")
    remote_state = read_rendered_branches(publisher.repository, publisher.remote, ("eu-1", "us-1"))
    observed_state = publisher.status_reader.read(read_reporter_keys(source))
    return assembler.build_release(source, DAY, remote_state.branches, observed_state)


def described(release: Release) -> tuple[object, ...]:
    """Return the parts of a release that must not depend on earlier releases."""
    return (
        release.files,
        release.data,
        release.retained_tenants,
        release.waiting_instances,
        release.pending_deletions,
        release.pending_changes,
        release.leaked_units,
        release.problems,
        release.retained_clusters,
        release.declared_tenants,
    )


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("copies")


# Each example takes seconds, so a failing example is not shrunk.
@pytest.mark.process
@settings(
    max_examples=scale_examples(5),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(
        st.tuples(
            st.sets(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=3),
            st.sampled_from(["nobody", "this process", "this process", "another process"]),
        ),
        min_size=3,
        max_size=6,
    ),
    memory_bytes=st.sampled_from([0, 20_000, rendered_file_store.MEMORY_BYTES]),
)
@example(steps=[({name}, "this process") for name in ("a second stock", "a second stock", "a price")], memory_bytes=0)
@example(
    steps=[({"a tenant"}, "another process"), ({"an instance"}, "this process"), ({"an instance"}, "nobody")],
    memory_bytes=20_000,
)
@example(steps=[({"a tenant of us-1"}, "nobody"), ({"a link"}, "nobody")], memory_bytes=0)
def test_a_release_equals_the_release_from_nothing(
    place: Place, copies: Path, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[set[str], str]], memory_bytes: int
) -> None:
    """A builder that has built earlier releases, and its persistent cache, yield the files of a new builder."""
    with tempfile.TemporaryDirectory(dir=copies) as folder, monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", f"{folder}/cache")
        patch.setattr(rendered_file_store, "MEMORY_BYTES", memory_bytes)
        here = place.copy(Path(folder))
        lasting = ReleaseBuilder(processes=1)
        remote = Remote(Repository(here.root), str(here.remote))
        publisher = Publisher(here.root, remote, lasting, lambda _: DAY)
        publisher.publish("HEAD")
        for changes, who in steps:
            for name in sorted(changes):
                CHANGES[name](here)
            here.merge()
            anew = assembled(here, ReleaseBuilder(processes=1))
            assert described(assembled(here, lasting, publisher)) == described(anew)
            assert described(assembled(here, ReleaseBuilder(processes=1, open_cache=open_cache))) == described(anew)
            for cluster, files in anew.files.items():
                published = publisher_files(here, cluster)
                needed = {path for path, blob in files.items() if published.get(path) != blob}
                assert needed == anew.data[cluster].keys() or cluster in anew.retained_clusters
            if who == "this process":
                publisher.publish("HEAD")
                assert {cluster: publisher_files(here, cluster) for cluster in anew.files} == anew.files
            elif who == "another process":
                a_publisher(here).publish("HEAD")


def publisher_files(place: Place, cluster: str) -> dict[str, str]:
    lines = git(place.remote, "ls-tree", "-r", f"rendered/{cluster}").splitlines()
    return {line.split("\t")[1]: line.split()[2] for line in lines}


class UnreadableBranch(Branch):
    """A branch with a commit that has lost a tree."""

    @property
    def files(self) -> dict[str, str]:  # type: ignore[override]  # a branch computes it once
        raise OperationRefused("a tree is gone")


def test_after_an_unreadable_branch_it_builds_the_next_release(place: Place) -> None:
    publisher, lasting = a_publisher(place), ReleaseBuilder(processes=1)
    publisher.publish("HEAD")
    before = assembled(place, lasting, publisher)
    branches = read_rendered_branches(publisher.repository, publisher.remote, ("eu-1", "us-1")).branches
    branches["eu-1"].__class__ = UnreadableBranch
    observed_state = publisher.status_reader.read({})
    with pytest.raises(OperationRefused, match="a tree is gone"):
        lasting.build_release(publisher.switch_to("HEAD"), DAY, branches, observed_state)
    assert described(assembled(place, lasting, publisher)) == described(before)


def test_only_changed_tenants_are_rendered_again(place: Place) -> None:
    lasting = ReleaseBuilder(processes=1)
    assembled(place, lasting)
    before = dict(lasting.rendered_blobs)
    edit(place.root, GROUP, "state: Running", "state: Stopped")
    place.merge()
    assembled(place, lasting)
    rerendered_tenants = {tenant for tenant, blobs in lasting.rendered_blobs.items() if blobs is not before[tenant]}
    assert "uni-lab" in rerendered_tenants
    assert "solo-ada" not in rerendered_tenants


def test_only_changed_tenants_are_rendered_by_the_next_process(place: Place) -> None:
    first = assembled(place, ReleaseBuilder(processes=1, open_cache=open_cache))
    assert first.rendered_count == len(first.declared_tenants)
    assert assembled(place, ReleaseBuilder(processes=1, open_cache=open_cache)).rendered_count == 1, (
        "who has a warning is read each time"
    )
    edit(place.root, GROUP, "state: Running", "state: Stopped")
    place.merge()
    second = assembled(place, ReleaseBuilder(processes=1, open_cache=open_cache))
    assert second.rendered_count == 2
    differing = {path for path, blob in second.files["eu-1"].items() if first.files["eu-1"].get(path) != blob}
    assert differing
    assert {path for path in differing if path.startswith("tenants/")} == {
        f"tenants/uni-lab/compute/{name}.rendered.yaml" for name in ("allotment--marker", "group-a")
    }


def stray(place: Place, publisher: Publisher) -> None:
    """Merge a file that nothing is to be published with, have that refused, and merge its removal."""
    file = place.root / "clusters" / "notes.txt"
    file.write_text("x")
    place.merge()
    with pytest.raises(PlatformInvalid):
        publisher.publish("HEAD")
    file.unlink()
    place.merge()


def test_publish_includes_earlier_merges_after_a_failed_publish(place: Place) -> None:
    publisher = a_publisher(place)
    publisher.publish("HEAD")
    edit(place.root, GROUP, "state: Running", "state: Stopped")
    stray(place, publisher)
    assert [cluster_commit.cluster for cluster_commit in publisher.publish("HEAD").commits] == ["eu-1"]
    path = "tenants/uni-lab/compute/group-a.rendered.yaml"
    assert "  replicas: 0\n" in git(place.remote, "show", f"rendered/eu-1:{path}")


def test_a_publisher_that_starts_with_a_failed_publish_deletes_nothing(place: Place) -> None:
    a_publisher(place).publish("HEAD")
    before = {cluster: publisher_files(place, cluster) for cluster in ("eu-1", "us-1")}
    restarted = a_publisher(place)
    stray(place, restarted)
    outcome = restarted.publish("HEAD")
    assert outcome.release is not None
    assert (outcome.commits, outcome.release.retained_tenants, outcome.release.pending_deletions) == ([], {}, [])
    assert {cluster: publisher_files(place, cluster) for cluster in ("eu-1", "us-1")} == before
    assert len(before["eu-1"]) > 50
