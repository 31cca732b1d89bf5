"""An assembler that goes on from what it rendered before assembles what a fresh one does."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.conftest import copy, edit
from tests.published import Place, git

from allotment.adapters.file_cache import FileCache
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.rendered_branches import read_rendered_branches
from allotment.services.publish.observed_state import EMPTY_STATE
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release import Release
from allotment.services.publish.release_builder import ReleaseBuilder
from allotment.services.publish.tenant_retention import PlatformInvalid

DAY = datetime.date(2026, 11, 21)
WEBUI, GROUP = "tenants/solo-ada/instances/webui.yaml", "tenants/uni-lab/instances/group-a.yaml"
KITE = "tenants/studio-kite/instances/webui.yaml"
NEW = "tenants/uni-lab/instances/another.yaml"


def toggle(place: Place, path: str, value: str, other: str) -> None:
    text = (place.root / path).read_text()
    edit(place.root, path, *((value, other) if value in text else (other, value)))


def come_and_go(place: Place) -> None:
    if (place.root / NEW).exists():
        (place.root / NEW).unlink()
    else:
        copy(place.root, GROUP, NEW)


EDITS: list[Callable[[Place], None]] = [
    lambda place: toggle(place, WEBUI, "l4-quarter", "l4-fifth"),
    lambda place: toggle(place, GROUP, "state: Running", "state: Stopped"),
    lambda place: toggle(place, "clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 20"),
    lambda place: toggle(place, "clusters/eu-1/cluster.yaml", "domain: eu-1.", "domain: eu-9."),
    lambda place: toggle(place, "tenants/film-house/storages/loras.yaml", "300Gi", "400Gi"),
    lambda place: toggle(place, "tenants/uni-lab/tenant.yaml", "nvidia-l4: 6", "nvidia-l4: 60"),
    lambda place: toggle(place, KITE, "gpuSpec: l4-quarter", "gpuSpec: l4-whole"),
    lambda place: toggle(place, "clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 1"),
    come_and_go,
]


open_cache = partial(FileCache.load, "publish")


def assembled(place: Place, assembler: ReleaseBuilder) -> Release:
    repository = Repository(place.root)
    remote_state = read_rendered_branches(repository, Remote(repository, str(place.remote)), ("eu-1", "us-1"))
    return assembler.build_release(CommitSource(place.root, "HEAD"), DAY, remote_state.branches, EMPTY_STATE)


@pytest.mark.parametrize("seed", range(4))
def test_it_goes_on_as_if_it_began_anew(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    lasting = ReleaseBuilder(processes=1)
    publisher = Publisher(place.root, Remote(Repository(place.root), str(place.remote)), lasting, lambda _: DAY)
    publisher.publish("HEAD")
    for _ in range(8):
        for change in chance.sample(EDITS, chance.randint(0, 3)):
            change(place)
        place.merge()
        if chance.random() < 0.2:  # somebody else published meanwhile
            place.publish()
        anew = assembled(place, ReleaseBuilder(processes=1))
        for release in (
            assembled(place, lasting),
            assembled(place, ReleaseBuilder(processes=1, open_cache=open_cache)),
        ):
            assert release.files == anew.files
            assert (
                release.retained_tenants,
                release.waiting_instances,
                release.pending_deletions,
                release.pending_changes,
            ) == (
                anew.retained_tenants,
                anew.waiting_instances,
                anew.pending_deletions,
                anew.pending_changes,
            )
            for cluster, files in release.files.items():
                published = publisher_files(place, cluster)
                needed = {path for path, blob in files.items() if published.get(path) != blob}
                assert needed == release.data[cluster].keys() == anew.data[cluster].keys()
        if chance.random() < 0.7:
            publisher.publish("HEAD")


def publisher_files(place: Place, cluster: str) -> dict[str, str]:
    lines = git(place.remote, "ls-tree", "-r", f"rendered/{cluster}").splitlines()
    return {line.split("\t")[1]: line.split()[2] for line in lines}


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


def a_publisher(place: Place) -> Publisher:
    remote = Remote(Repository(place.root), str(place.remote))
    return Publisher(place.root, remote, ReleaseBuilder(processes=1), lambda _: DAY)


def test_what_was_merged_beside_what_stopped_a_publish_is_published_after_it(place: Place) -> None:
    publisher = a_publisher(place)
    publisher.publish("HEAD")
    edit(place.root, GROUP, "state: Running", "state: Stopped")
    stray(place, publisher)
    assert [cluster_commit.cluster for cluster_commit in publisher.publish("HEAD").commits] == ["eu-1"]
    path = "tenants/uni-lab/compute/group-a.rendered.yaml"
    assert "  replicas: 0\n" in git(place.remote, "show", f"rendered/eu-1:{path}")


def test_who_begins_while_nothing_can_be_published_takes_nothing_for_gone_afterwards(place: Place) -> None:
    a_publisher(place).publish("HEAD")
    before = {cluster: publisher_files(place, cluster) for cluster in ("eu-1", "us-1")}
    restarted = a_publisher(place)
    stray(place, restarted)
    outcome = restarted.publish("HEAD")
    assert outcome.release is not None
    assert (outcome.commits, outcome.release.retained_tenants, outcome.release.pending_deletions) == ([], {}, [])
    assert {cluster: publisher_files(place, cluster) for cluster in ("eu-1", "us-1")} == before
    assert len(before["eu-1"]) > 50
