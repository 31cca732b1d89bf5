"""What makes a round publish, and how often it asks the remotes."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import DAY, edit
from tests.support import damage
from tests.support.comment_loop_bed import RecordedLog
from tests.support.gated_instance import replicas, seen, waiting
from tests.support.published import Place, git

from allotment.adapters.git import clone
from allotment.adapters.git import remote as remotes
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.trees import TreeReader
from allotment.adapters.metrics import Metrics, metrics_text
from allotment.declared import documents, reading
from allotment.services.publish.publish_loop import PublishLoop
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release_builder import ReleaseBuilder

__all__ = ["waiting"]  # a fixture


class Asked(Remote):
    """A remote that counts how often it is asked."""

    times = 0

    def fetch(self, *refs: str, ours: bool = False, unfetched: tuple[str, ...] = ()) -> dict[str, str]:
        self.times += 1
        return super().fetch(*refs, ours=ours, unfetched=unfetched)


class Bed:
    """Rounds of a place, one at a time, and what they counted."""

    def __init__(self, place: Place, data: Path) -> None:
        repository = Clone.open_or_create(data)
        remote = Asked(repository, str(place.remote), keep=True)
        day = datetime.date.fromisoformat(DAY)
        self.remote, self.registry, self.log = remote, CollectorRegistry(), RecordedLog()
        publisher = Publisher(
            data, remote, ReleaseBuilder(processes=1), lambda _: day, status=remote, find_tip=self.tip
        )
        self.rounds = PublishLoop(remote, "main", publisher, Metrics(self.registry), self.log, 30)

    def tip(self) -> str | None:
        return self.remote.look("refs/heads/main").get("refs/heads/main")

    def count_requests(self) -> int:
        """Run one round; return how often it asked the remote."""
        self.remote.times = 0
        self.rounds.tick()
        return self.remote.times

    @property
    def publishes(self) -> int:
        lines = metrics_text(self.registry).decode().splitlines()
        return next(
            (int(float(line.split()[-1])) for line in lines if line.startswith("allotment_publish_seconds_count")), 0
        )


@pytest.fixture
def bed(waiting: Place, tmp_path: Path) -> Bed:
    return Bed(waiting, tmp_path / "data")


def test_a_status_that_says_nothing_new_publishes_nothing(bed: Bed, waiting: Place) -> None:
    bed.rounds.tick()
    bed.rounds.tick()
    assert bed.publishes == 1
    seen(waiting)
    bed.rounds.tick()
    assert (bed.publishes, replicas(waiting)) == (2, 1)
    commit = seen(waiting, "Succeeded", reason="PreparationSucceeded")
    bed.rounds.tick()
    assert bed.remote.repository.has_object(commit), "it was read"
    assert (bed.publishes, replicas(waiting)) == (2, 1)
    seen(waiting, "Failed")
    bed.rounds.tick()
    assert bed.publishes == 3, "and what is new is seen"


def test_the_metrics_start_each_counter_at_zero(bed: Bed) -> None:
    """Or else increase() misses the first."""
    assert 'allotment_errors_total{reason="braked"} 0.0' in metrics_text(bed.registry).decode()
    bed.rounds.tick()
    text = metrics_text(bed.registry).decode()
    for cluster in ("eu-1", "us-1"):
        assert f'allotment_foreign_commits_total{{cluster="{cluster}"}} 0.0' in text


def test_a_round_asks_three_times_whatever_the_number_of_clusters(bed: Bed, waiting: Place) -> None:
    bed.rounds.tick()
    assert bed.count_requests() == 3, "the source, the rendered branches, the statuses"
    events: list[tuple[str, dict[str, Any]]] = bed.log.events
    assert not [event for event, _ in events if event == "nothing published"]


def test_a_publish_lists_the_source_once_and_reads_each_file_of_it_once(
    bed: Bed, waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, read = Counter[str](), Counter[bytes]()
    walk, parse = TreeReader.walk, documents.read
    monkeypatch.setattr(
        TreeReader, "walk", lambda trees, tree, *more: (listed.update([tree]), walk(trees, tree, *more))[1]
    )
    monkeypatch.setattr(documents, "read", lambda data: (read.update([data]), parse(data))[1])
    reading._read_cache.clear()
    waiting.merge()
    bed.rounds.tick()
    source = git(waiting.root, "rev-parse", "HEAD^{tree}")
    assert listed[source] == 1
    assert read[(waiting.root / "platform/platform.yaml").read_bytes()] == 1
    assert set(read.values()) == {1}


def test_a_lock_at_the_remote_makes_it_unready_until_the_lock_is_removed(
    bed: Bed, waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "_LOCK_PAUSES", (0.01, 0.02, 0.04))
    seen(waiting)
    lock = waiting.remote / "refs/heads/rendered/eu-1.lock"
    lock.touch()
    bed.rounds.tick()
    assert not bed.rounds.ready()
    [(_, about)] = [event for event in bed.log.events if event[0] == "nothing published"]
    assert "refs/heads/rendered/eu-1.lock' is held there" in about["message"]
    assert 'allotment_errors_total{reason="unreachable"} 1.0' in metrics_text(bed.registry).decode()
    lock.unlink()
    bed.rounds.tick()
    assert (bed.rounds.ready(), bed.publishes, replicas(waiting)) == (True, 1, 1)


def test_a_publish_that_is_overtaken_before_its_look_does_nothing_and_claims_no_rewind(
    bed: Bed, waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher that is stopped after its fetch, and goes on when a newer commit is published, is older."""
    bed.rounds.tick()
    edit(waiting.root, "tenants/uni-lab/instances/group-a.yaml", "state: Running", "state: Stopped")
    waiting.merge()
    publish, newer = Publisher.publish, list[str]()

    def overtaken(publisher: Publisher, ref: str) -> Any:
        if not newer:
            edit(waiting.root, "tenants/uni-lab/instances/group-b.yaml", "state: Running", "state: Stopped")
            newer.append(waiting.merge())
            assert waiting.publish().code == 0
        return publish(publisher, ref)

    monkeypatch.setattr(Publisher, "publish", overtaken)
    bed.rounds.tick()
    assert waiting.refs()["refs/allotment/source"] == newer[0]
    assert [event for event, _ in bed.log.events if event == "nothing published"] == []
    assert ("newer source is published", newer[0]) in [(event, about.get("newer")) for event, about in bed.log.events]
    assert 'allotment_errors_total{reason="rewound"} 0.0' in metrics_text(bed.registry).decode()
    bed.rounds.tick()
    assert bed.rounds.ready()


def test_a_branch_that_went_back_is_a_rewind_whose_way_out_is_named(bed: Bed, waiting: Place) -> None:
    bed.rounds.tick()
    edit(waiting.root, "tenants/uni-lab/instances/group-a.yaml", "state: Running", "state: Stopped")
    waiting.merge()
    bed.rounds.tick()
    git(waiting.root, "push", "-q", "--force", "origin", "HEAD~1:main")
    bed.rounds.tick()
    (event_fields,) = [about for event, about in bed.log.events if event == "nothing published"]
    assert event_fields["reason"] == "rewound"
    assert "--delete refs/allotment/source" in event_fields["message"]


@pytest.mark.parametrize("harm", damage.DAMAGES)
def test_a_damaged_clone_is_fetched_again_and_publishes(
    bed: Bed, waiting: Place, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    bed.rounds.tick()
    (tmp_path / "data/report").mkdir()
    (tmp_path / "data/report/HEAD").write_text("of another clone")
    harm(tmp_path / "data")
    seen(waiting)
    bed.rounds.tick()
    assert not bed.rounds.ready()
    assert 'allotment_errors_total{reason="damaged"} 1.0' in metrics_text(bed.registry).decode()
    assert [event for event, _ in bed.log.events].count("clone replaced") == 1
    bed.rounds.tick()
    assert (bed.rounds.ready(), bed.publishes, replicas(waiting)) == (True, 2, 1)
    assert git(tmp_path / "data", "fsck", "--full", "--no-dangling") == ""
    assert (tmp_path / "data/report/HEAD").read_text() == "of another clone"
    waiting.merge()
    bed.rounds.tick()
    assert bed.rounds.ready()
    assert [event for event, _ in bed.log.events].count("clone replaced") == 1


def test_locks_that_a_killed_git_left_keep_no_publisher_unready(bed: Bed, waiting: Place, tmp_path: Path) -> None:
    bed.rounds.tick()
    damage.leave_locks(tmp_path / "data")
    seen(waiting)
    bed.rounds.tick()
    bed.rounds.tick()
    assert (bed.rounds.ready(), replicas(waiting)) == (True, 1)
    assert damage.locks(tmp_path / "data") == []


def test_a_clone_that_is_damaged_again_is_not_replaced_at_once(
    bed: Bed, waiting: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails would have the whole repository fetched in each turn."""
    monkeypatch.setattr(clone, "CHECK_SHARE", 0)  # each check may follow the last at once
    for part in ("first", "second"):
        bed.rounds.tick()
        damage.remove_packs(tmp_path / "data")
        (waiting.root / part).touch()
        waiting.merge()
        bed.rounds.tick()
        if part == "first":
            bed.rounds.tick()
    assert [event for event, _ in bed.log.events].count("clone replaced") == 1
    event, about = bed.log.events[-1]
    assert (event, about["reason"]) == ("nothing published", "damaged")
    assert "the local clone is damaged, and is replaced in " in about["message"]
    assert not bed.rounds.ready()
