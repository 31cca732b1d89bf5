"""Whatever an API server does, the last state arrives, nothing is taken for deleted, and it isn't hammered. Cases 35 to 39."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import live
from tests.support.faults import (
    Answer,
    Request,
    Server,
    api_of,
    bookmark,
    error,
    event,
    fails,
    listed,
    serving,
    stays,
    watched,
)
from tests.support.waiting import eventually

from allotment.adapters.backoff import Backoff
from allotment.adapters.cluster.observed_objects import ObservedObjects
from allotment.adapters.cluster.watching import Watch, WatchTiming
from allotment.observed.decoding import PODS, REPLICA_SETS, WatchedKind
from allotment.observed.objects import Pod

QUICK = WatchTiming(backoff=Backoff(0.02, 0.2), max_silence=0.4, stable_after=5, max_retry_after=600)
A, B, C = (live.pod(name, node="n1") for name in ("a", "b", "c"))
ALL = listed(A, B, version="10")


@contextmanager
def watching(
    *script: Answer, otherwise: Answer = ALL, pace: WatchTiming = QUICK, kind: WatchedKind = PODS, token: Any = None
) -> Iterator[tuple[Server, Watch, ObservedObjects]]:
    with serving(*script, otherwise=otherwise) as server:
        store = ObservedObjects("eu-1")
        watch = Watch(api_of(server, token), kind, store, pace)
        thread = threading.Thread(target=watch.run, daemon=True)
        thread.start()
        try:
            yield server, watch, store
        finally:
            watch.stop()


def names(store: ObservedObjects) -> list[str]:
    return sorted(
        live_object.name.partition("-")[0] for live_object in store.objects(live.TENANT) if isinstance(live_object, Pod)
    )


def until(store: ObservedObjects, *wanted: str) -> None:
    eventually(lambda: names(store) == list(wanted), f"{wanted} to be seen", 5, pause=0.01)


def test_pages_then_events_from_the_lists_version_on() -> None:
    script = (
        listed(A, version="9", more="t"),
        listed(B, version="9"),
        watched(event("ADDED", C, "11"), event("DELETED", A, "12"), bookmark("15")),
    )
    with watching(*script) as (server, watch, store):
        until(store, "b", "c")
        eventually(lambda: server.watches() == ["9", "15"], "it to resume", 5, pause=0.01)
        assert server.requests[1].query["continue"] == "t"
        assert server.requests[0].query["labelSelector"] == "app.kubernetes.io/managed-by=allotment"
        assert (server.lists(), watch.synced) == (1, True)


@pytest.mark.parametrize(
    "answer",
    [
        watched(error(410)),
        fails(410),
        watched(),
        lambda request: request.whole(b""),
        watched(b"<html>\n"),
        watched(b'{"type": "ADDED", "object": {"metadata": 7}}\n'),
    ],
    ids=["event 410", "status 410", "empty stream", "empty body", "no JSON", "no object"],
)
def test_watch_lists_again_after_a_broken_answer_and_loses_no_object(answer: Answer) -> None:
    with watching(ALL, answer, listed(B, C, version="20")) as (server, _, store):
        until(store, "b", "c")
        eventually(lambda: server.watches()[-1] == "20", "the watch to go on", 5, pause=0.01)


@pytest.mark.parametrize("answer", [fails(410), watched(error(410)), watched(), fails(500), fails(429)])
def test_watch_waits_longer_before_each_retry(answer: Answer) -> None:
    pace = QUICK._replace(backoff=Backoff(0.04, 30))
    with watching(*[ALL, answer] * 20, pace=pace) as (server, _, store):
        until(store, "a", "b")
        time.sleep(0.6)
        assert 2 <= len(server.watches()) + server.lists() <= 12, "40, 80, 160, 320 ms between tries"
        assert names(store) == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [fails(503), fails(500), lambda request: request.whole(b'{"metadata": {"resourceVersion": "9"}, "items": [{"meta')],
    ids=["503", "500", "cut"],
)
def test_a_list_that_fails_takes_nothing_away(answer: Answer) -> None:
    script = (ALL, watched(error(410)), answer, answer, listed(A, version="30"))
    with watching(*script) as (_, _, store):
        until(store, "a", "b")
        until(store, "a")


def test_a_list_of_which_a_page_is_missing_counts_for_nothing() -> None:
    script = (ALL, watched(error(410)), listed(C, version="30", more="t"), fails(410), listed(A, C, version="31"))
    with watching(*script) as (_, _, store):
        until(store, "a", "b")
        until(store, "a", "c")


def test_a_list_without_a_version_or_cut_by_the_connection_is_none() -> None:
    def cut(request: Request) -> None:
        request.begin(Content_Length="1000")
        request.wfile.write(b'{"metadata": {"resourceVersion": "9"}, "items": []}')

    with watching(ALL, watched(error(410)), cut, listed(version=""), listed(C, version="9")) as (_, _, store):
        until(store, "a", "b")
        until(store, "c")


def test_a_stream_cut_inside_an_object_is_resumed() -> None:
    half = b'{"type": "ADDED", "object": {"metadata": {"na'
    script = (ALL, watched(event("ADDED", C, "11"), half), watched(event("DELETED", A, "12"), then=5))
    with watching(*script) as (server, _, store):
        until(store, "b", "c")
        assert server.watches() == ["10", "11"]
        assert server.lists() == 1


def test_silence_and_a_byte_a_while_are_dropped_and_resumed() -> None:
    def slowly(request: Request) -> None:
        request.begin()
        for _ in range(100):
            request.say(b"{")
            time.sleep(0.05)

    with watching(ALL, stays, slowly, watched(event("DELETED", A, "12"), then=5)) as (server, watch, store):
        until(store, "b")
        assert server.watches() == ["10", "10", "10"]
        assert time.monotonic() - watch.contact < 3


def test_retry_after_is_obeyed() -> None:
    with watching(ALL, fails(429, Retry_After="1"), watched(event("DELETED", A, "11"), then=5)) as (
        server,
        watch,
        store,
    ):
        eventually(lambda: watch.trouble == "it answers 429", "the refusal to be noted", 5, pause=0.01)
        begun = time.monotonic()
        until(store, "b")
        assert time.monotonic() - begun > 0.8
        assert len(server.watches()) == 2


def test_credentials_are_read_again_when_they_have_expired() -> None:
    tokens = iter(["old", "new", "new", "new"])
    seen: list[str] = []

    def guarded(request: Request) -> None:
        seen.append(str(request.headers["Authorization"]))
        (ALL if seen[-1] == "Bearer new" else fails(401))(request)

    with watching(guarded, guarded, token=lambda: next(tokens)) as (_, _, store):
        until(store, "a", "b")
        assert seen == ["Bearer old", "Bearer new"]


def test_a_kind_that_is_not_installed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.adapters.cluster.watching.ABSENT_SECONDS", 0.1)
    with watching(*[fails(404)] * 5) as (_, watch, store):
        eventually(lambda: watch.absent, "it to be found missing", 5, pause=0.01)
        assert watch.synced, "nobody waits for what isn't there"
        until(store, "a", "b")
        assert not watch.absent


def test_a_kind_that_is_missing_for_a_moment_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.adapters.cluster.watching.ABSENT_SECONDS", 0.05)
    with watching(ALL, watched(error(410)), *[fails(404)] * 4, listed(A, version="9")) as (_, watch, store):
        eventually(lambda: watch.absent, "it to be found missing", 5, pause=0.01)
        assert names(store) == ["a", "b"]
        until(store, "a")


def test_unknown_events_and_bookmarks_do_no_harm() -> None:
    script = (ALL, watched({"type": "NEWS", "object": {"x": 1}}, bookmark("11"), event("ADDED", C, "12"), then=5))
    with watching(*script) as (server, _, store):
        until(store, "a", "b", "c")
        assert server.lists() == 1


def test_one_made_anew_is_another_one() -> None:
    replacement = live.pod("a", node="n2")
    replacement["metadata"]["uid"] = "another"
    script = (ALL, watched(event("ADDED", replacement, "11"), event("DELETED", A, "12"), then=5))
    with watching(*script) as (_, _, store):
        eventually(
            lambda: (
                len(store) == 2
                and {live_object.uid for live_object in store.objects(live.TENANT)} == {"another", "p-b-1"}
            ),
            "it",
            5,
        )


def test_one_of_a_strange_shape_does_not_hide_the_others() -> None:
    strange = {"metadata": {"name": 7}}
    with watching(listed(A, strange, version="9")) as (_, watch, store):
        until(store, "a")
        assert watch.skipped == 1


def test_an_empty_list_of_metadata_is_null_and_nothing_is_there() -> None:
    empty = {"metadata": {"resourceVersion": "9"}, "items": None}
    script = (
        listed(live.replica_set()),
        watched(error(410)),
        lambda request: request.whole(json.dumps(empty).encode()),
    )
    with watching(*script, kind=REPLICA_SETS, otherwise=watched(then=5)) as (_, watch, store):
        eventually(lambda: len(store) == 1, "it to be seen", 5, pause=0.01)
        eventually(lambda: len(store) == 0, "nothing to be seen", 5, pause=0.01)
        assert (watch.synced, watch.trouble) == (True, "")


def test_only_metadata_is_asked_for_where_that_is_enough() -> None:
    with watching(kind=REPLICA_SETS, otherwise=listed(live.replica_set())) as (server, _, store):
        eventually(lambda: len(store) == 1, "it to be seen", 5)
        assert "PartialObjectMetadataList" in server.requests[0].headers["Accept"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.sampled_from("abc"), st.sampled_from("xyz"))
)


@given(STEPS, st.sets(st.sampled_from("abc")))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_order_of_events_ends_like_a_fresh_list(steps: list[tuple[str, str, str]], final: set[str]) -> None:
    """Whatever came before, and however often, a complete list is what counts in the end."""
    store, fresh = ObservedObjects("eu-1"), ObservedObjects("eu-1")
    for kind, name, node in steps:
        (pod,) = live.seen(live.pod(name, node=node))
        (store.remove if kind == "DELETED" else store.put)(PODS, pod)
    last = live.seen(*(live.pod(name, node="end") for name in final))
    for each in (store, fresh):
        each.replace(PODS, last)
    assert set(store.objects(live.TENANT)) == set(fresh.objects(live.TENANT))
    assert len(store) == len(fresh) == len(final)
    assert store.owners() == fresh.owners()
