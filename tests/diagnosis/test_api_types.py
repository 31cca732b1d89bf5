"""Whatever shape an API server's answers have, a diagnosis comes of it, and it names what can't be read."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.diagnosis.healthy import Bed, offers_of
from tests.support.faults import Request, api_of, serving

from allotment.adapters.cluster import snapshot_reader
from allotment.diagnosis import api_types, apis, cluster_snapshot, diagnose_cluster
from allotment.diagnosis.cluster_snapshot import ResourceQuery
from allotment.diagnosis.diagnosis import Diagnosis
from allotment.diagnosis.pool_nodes import has_gpus
from allotment.problems import OperationRefused

WRONG: tuple[Any, ...] = (5, "text", [], ["text"], [5], [None], {}, {"a": 5}, None, True)
OFFERS = offers_of()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in an object, its own included."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a copy with another value at a path."""
    if not path:
        return other
    value = copy.deepcopy(value)
    place = value
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other
    return value


def test_every_kind_that_is_read_has_a_shape() -> None:
    assert api_types.TYPES_BY_QUERY.keys() == set(cluster_snapshot.ALL_QUERIES)


@pytest.mark.parametrize("cluster", ["eu-1", "us-1"])
def test_a_healthy_clusters_objects_have_their_shapes(cluster: str) -> None:
    for kind, objects in Bed(cluster).objects.items():
        for live_object in objects:
            assert api_types.validate_object(kind, json.loads(json.dumps(live_object))) == live_object


@pytest.mark.process
@pytest.mark.parametrize("cluster", ["eu-1", "us-1"])
@pytest.mark.parametrize("kind", cluster_snapshot.ALL_QUERIES, ids=lambda kind: f"{kind.resource} {kind.name}")
def test_no_wrong_type_anywhere_ends_a_diagnosis(kind: ResourceQuery, cluster: str) -> None:
    bed = Bed(cluster)
    if kind == cluster_snapshot.KARPENTER_NODE_POOLS:  # they are asked about nodes without GPUs where there is none
        bed.objects[cluster_snapshot.NODES] = [node for node in bed.objects[cluster_snapshot.NODES] if has_gpus(node)]
    for live_object in bed.objects[kind][:1]:
        for path in places(live_object):
            for wrong in WRONG:
                try:
                    checked_object = api_types.validate_object(kind, changed(live_object, path, wrong))
                except ValueError:
                    continue
                bed.objects[kind] = [checked_object]
                bed.diagnosed()


def seen(answer: Callable[[Request], None]) -> list[Diagnosis]:
    """Return the diagnosis of a cluster whose API server answers so, but for its version."""

    def say(request: Request) -> None:
        if request.request_path == "/version":
            request.whole(b'{"major": "1", "minor": "36"}')
        else:
            answer(request)

    cluster = OFFERS.clusters["eu-1"]
    with serving(otherwise=say) as server:
        api = api_of(server)
        seen = snapshot_reader.take_snapshot(
            api,
            api,
            cluster_snapshot.ALL_QUERIES,
            (needed_api.api for needed_api in apis.list_required_apis(OFFERS, cluster)),
        )
        return diagnose_cluster(seen, OFFERS, cluster)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"items": 5}', "Expected `array`, got `int`"),
        (b'{"items": [5]}', "Expected `object`, got `int`"),
        (b'{"items": [], "metadata": [1]}', "its answer can't be read"),
        (b'{"items": [], "metadata": {"continue": 5}}', "Expected `str`, got `int`"),
        (b'{"items": [{"metadata": null}]}', "Object missing required field `metadata`"),
        (
            b'{"items": [{"metadata": {"name": "a", "labels": "b"}}]}',
            "Expected `object`, got `str` - at `$.metadata.labels`",
        ),
        (b'{"items": [{"metadata": {"name": 7}}]}', "Expected `str`, got `int` - at `$.metadata.name`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"<html>", "JSON is malformed"),
        (b"\xff", "its answer can't be read"),
        (b"", "its answer can't be read"),
        (b"[" * 100_000, "its answer can't be read"),
        (b'{"items": [' + b"9" * 5000 + b"]}", "its answer can't be read"),
    ],
)
def test_a_wrong_answer_is_named(body: bytes, words: str) -> None:
    diagnoses = seen(lambda request: request.whole(body))
    (of_nodes,) = {diagnosis.message for diagnosis in diagnoses if diagnosis.subject == "nodes"}
    assert of_nodes.startswith("can't be checked: its answer can't be read")
    assert words in of_nodes


def test_pages_without_end_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "MOST_PAGES", 5)
    diagnoses = seen(lambda request: request.whole(b'{"items": [], "metadata": {"continue": "again"}}'))
    assert {diagnosis.message for diagnosis in diagnoses if diagnosis.subject == "nodes"} == {
        "can't be checked: its answer can't be read: it has more than 5 pages"
    }


@pytest.mark.parametrize(
    ("limit", "words"), [("MAX_PAGE_BYTES", "too much"), ("MAX_TOTAL_BYTES", "it has more than 0 MiB")]
)
def test_a_body_that_is_too_large_is_named(limit: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, limit, 1000)
    diagnoses = seen(lambda request: request.whole(b'{"items": []' + b" " * 2000 + b"}"))
    (of_nodes,) = {diagnosis.message for diagnosis in diagnoses if diagnosis.subject == "nodes"}
    assert of_nodes.endswith(words)


def test_a_server_that_takes_all_the_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "LOOK_SECONDS", 0.0)
    with pytest.raises(OperationRefused, match="doesn't answer: too slow"):
        seen(lambda request: request.whole(b"{}"))


def test_a_version_that_is_no_mapping_is_refused() -> None:
    with serving(otherwise=lambda request: request.whole(b"[1]")) as server, pytest.raises(OperationRefused):
        snapshot_reader.take_snapshot(api_of(server), api_of(server), cluster_snapshot.ALL_QUERIES, ())
