"""A publisher follows the remotes that a commit declares when it switches to that commit, and at no other time."""

from __future__ import annotations

import datetime

from tests.conftest import DAY
from tests.support.published import Place

from allotment.adapters.declaration_source import Source
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.platform_settings import list_cluster_names, read_reporter_keys
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release_builder import ReleaseBuilder


def test_a_switch_changes_the_targets_and_a_read_does_not(place: Place) -> None:
    repository = Repository(place.root)
    old_remote, new_remote = (Remote(repository, f"{place.remote}{end}") for end in ("", ".moved"))
    moved: list[Source] = []

    def declared_remotes(source: Source) -> tuple[Remote, Remote]:
        moved.append(source)
        return (new_remote, new_remote) if len(moved) > 1 else (old_remote, old_remote)

    day = datetime.date.fromisoformat(DAY)
    publisher = Publisher(
        place.root, old_remote, ReleaseBuilder(processes=1), lambda _: day, find_remotes=declared_remotes
    )
    old = publisher.switch_to("HEAD")
    place.merge()
    assert list_cluster_names(old) == ["eu-1", "us-1"]
    publisher.status_reader.read(read_reporter_keys(old))
    assert (publisher.remote, publisher.status_reader.remote) == (old_remote, old_remote)
    new = publisher.switch_to("HEAD")
    assert (publisher.remote, publisher.status_reader.remote) == (new_remote, new_remote)
    assert publisher.switch_to("HEAD") is new
    assert moved == [old, new]
