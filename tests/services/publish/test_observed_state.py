"""The observed state: what the status branches say, and what remains of it where a branch or the remote is lost."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.published import OBSERVED, Place

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.services.publish.observed_state import EMPTY_STATE, NOTHING_OBSERVED, ObservedState, StatusReader

CLUSTERS: Mapping[str, None] = {"eu-1": None, "us-1": None}


def reader_of(place: Place) -> StatusReader:
    repository = Repository(place.root)
    return StatusReader(repository, Remote(repository, str(place.remote)))


def test_the_state_has_the_tenants_time_and_commit_of_each_status(published: Place) -> None:
    commit = published.synced("eu-1", "solo-ada")
    reader = reader_of(published)
    state = reader.read(CLUSTERS)
    assert (state.observed_at["eu-1"], state.commits["eu-1"]) == (OBSERVED, commit)
    assert ("eu-1", "namespace", "") in state.find_tenant("solo-ada").present
    assert state.find_tenant("nobody") == NOTHING_OBSERVED
    assert reader.state is state
    assert reader.read(CLUSTERS) == state


def test_the_last_state_remains_where_the_remote_does_not_answer(published: Place) -> None:
    published.synced("eu-1", "solo-ada")
    reader = reader_of(published)
    state = reader.read(CLUSTERS)
    published.remote.rename(published.remote.with_suffix(".gone"))
    lost = reader.read(CLUSTERS)
    assert lost.troubles.keys() == CLUSTERS.keys()
    assert lost._replace(troubles={}) == state._replace(troubles={})
    assert state.troubles == {}, "a state that was returned does not change"


def test_only_clusters_with_a_deletion_in_progress_have_a_deletion_clock() -> None:
    assert EMPTY_STATE.deletion_clock() == {}
    tenant = NOTHING_OBSERVED._replace(marked_since={("eu-1", "storage", "models"): OBSERVED})
    state = ObservedState({"solo-ada": tenant}, {"eu-1": OBSERVED, "us-1": OBSERVED})
    assert state.deletion_clock() == {"eu-1": OBSERVED}
