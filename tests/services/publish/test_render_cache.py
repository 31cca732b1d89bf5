"""What tenants were rendered to, as the next process finds it: whole, of what is known of them now, or not at all."""

from __future__ import annotations

from functools import partial

from allotment.adapters.file_cache import FileCache
from allotment.rules.tally import TallyEntry
from allotment.services.check.tenant_results import CachedResult
from allotment.services.publish.render_cache import PreparedJobs, RenderCache

KEY = "program, day and offers"
DONE: PreparedJobs = {"ada": frozenset({("eu-1", "models--prepare-1")})}
open_cache = partial(FileCache.load, "publish")


def note(remembered: RenderCache, prepared: PreparedJobs, *tenants: str) -> None:
    """Find tenants fine and render them, as a survey and what follows it do."""
    memory = remembered.bind_prepared_jobs(prepared)(KEY, CachedResult)
    for tenant in tenants:
        memory.put(tenant, CachedResult("stamp", "content", 3, TallyEntry((), (), ("eu-1",))))
    remembered.store({tenant: {f"tenants/{tenant}": "blob"} for tenant in tenants}, dict.fromkeys(tenants))


def known(prepared: PreparedJobs, key: str = KEY) -> dict[str, object]:
    """Return what the next process knows of tenants."""
    after = RenderCache(open_cache)
    memory = after.bind_prepared_jobs(prepared)(key, CachedResult)
    return {tenant: after.rendered_blobs[tenant] for tenant in memory.values}


def test_the_next_process_knows_what_this_one_rendered() -> None:
    note(RenderCache(open_cache), DONE, "ada", "uni")
    assert known(DONE) == {"ada": {"tenants/ada": "blob"}, "uni": {"tenants/uni": "blob"}}


def test_of_another_platform_or_program_nothing_is_known() -> None:
    note(RenderCache(open_cache), DONE, "ada")
    assert known(DONE, "another") == {}


def test_the_cache_ignores_a_tenant_with_different_prepared_jobs() -> None:
    note(RenderCache(open_cache), DONE, "ada", "uni")
    assert set(known({})) == {"uni"}
    assert set(known({"ada": frozenset({("eu-1", "models--prepare-2")})})) == {"uni"}
    assert set(known({**DONE, "uni": frozenset({("eu-1", "x--prepare-1")})})) == {"ada"}


def test_without_a_place_to_keep_it_nothing_outlives_the_process() -> None:
    note(RenderCache(), DONE, "ada")
    assert known(DONE) == {}


def test_a_publish_that_was_stopped_leaves_what_the_one_before_it_left() -> None:
    remembered = RenderCache(open_cache)
    note(remembered, DONE, "ada")
    remembered.bind_prepared_jobs(DONE)(KEY, CachedResult).put("uni", None)
    remembered.clear()
    assert set(known(DONE)) == {"ada"}
    assert set(remembered.bind_prepared_jobs(DONE)(KEY, CachedResult).values) == {"ada"}, (
        "and goes on from there itself"
    )


def test_the_cache_forgets_a_removed_tenant() -> None:
    note(RenderCache(open_cache), DONE, "ada", "uni")
    reopened_cache = RenderCache(open_cache)
    reopened_cache.bind_prepared_jobs(DONE)(KEY, CachedResult).remove("uni")
    reopened_cache.store({}, {"ada": None})
    assert set(known(DONE)) == {"ada"}
