"""What would replace a pool's nodes is published only once those who run there are protected."""

from __future__ import annotations

import pytest
from tests.conftest import PROJECT, edit
from tests.pipeline.publish.written import before
from tests.published import Place

from allotment.manifests.tenant import disruption
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.known import Known
from allotment.pipeline.publish.turnover import Turnover

GOLDEN = PROJECT / "tests/manifests/golden/us-1"
POOL = "us-1/platform/node-pools/h100.rendered.yaml"
NAMESPACE = "control/namespaces/m/ml-orbit.rendered.yaml"
BUDGET = b"kind: PodDisruptionBudget"
NOW = (GOLDEN / POOL.partition("/")[2]).read_bytes()
THEN = NOW.replace(b"expireAfter: Never", b"expireAfter: 720h")
SEEN, SILENT = {"us-1": "2026-11-23T10:00:00Z"}, dict[str, str]()
TENANTS = ("acme-robotics", "ml-orbit")
PROTECTED = {tenant: Known(undisturbed=frozenset(("us-1",))) for tenant in TENANTS}
WORDS = (
    "us-1: NodePool h100: its nodes stay as they are until the instances of acme-robotics, ml-orbit are seen to be"
    " protected from drained nodes"
)


def published(*, pool: bytes = THEN, budget: bool = True) -> Before:
    files = {f"us-1/{path.relative_to(GOLDEN)}": path.read_bytes() for path in GOLDEN.rglob("*.yaml")}
    for path in files if not budget else ():
        files[path] = b"---\n".join(one for one in files[path].split(b"---\n") if BUDGET not in one)
    return before({**files, POOL: pool})


@pytest.mark.parametrize(
    ("was", "known", "observed"),
    [
        (published(budget=False), {}, SILENT),
        (published(budget=False), {}, SEEN),
        (published(), {}, SEEN),
        (published(budget=False), PROTECTED, SEEN),
    ],
    ids=["not published", "neither published nor seen", "published and not seen", "seen of another time"],
)
def test_nodes_stay_until_instances_are_protected(
    was: Before, known: dict[str, Known], observed: dict[str, str]
) -> None:
    turnover = Turnover(was, known, observed)
    assert turnover.settled(POOL, NOW) == THEN
    assert turnover.held == [WORDS]


@pytest.mark.parametrize(("known", "observed"), [(PROTECTED, SEEN), ({}, SILENT)], ids=["seen", "nothing reports"])
def test_nodes_are_replaced_once_they_are(known: dict[str, Known], observed: dict[str, str]) -> None:
    turnover = Turnover(published(), known, observed)
    assert turnover.settled(POOL, NOW) == NOW
    assert turnover.held == []


def test_what_replaces_no_node_waits_for_nothing() -> None:
    more = NOW.replace(b'nvidia.com/gpu: "16"', b'nvidia.com/gpu: "32"')
    assert more != NOW
    turnover = Turnover(published(pool=NOW, budget=False), {}, SILENT)
    assert turnover.settled(POOL, more) == more
    assert turnover.settled("us-1/platform/node-pools/new.rendered.yaml", NOW) == NOW
    assert turnover.held == []


def test_a_node_class_replaces_nodes_too() -> None:
    other = NOW.replace(b"channel: stable", b"channel: next")
    assert other != NOW
    assert Turnover(published(pool=NOW, budget=False), {}, SILENT).settled(POOL, other) == NOW


def test_a_publish_protects_first_and_replaces_in_the_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:  # a version of ours that knew no budgets
        earlier.setattr(disruption, "render", lambda *_: [])
        place.publish()
    edit(place.root, "clusters/us-1/node-pools/h100.yaml", "  karpenter:\n", "  generation: 2\n  karpenter:\n")
    place.merge()
    first = place.publish()
    assert f"waits: {WORDS}" in first.err
    assert "PodDisruptionBudget" in place.tree("us-1")[NAMESPACE]
    assert "generation" not in place.tree("us-1")[POOL.partition("/")[2]]
    assert WORDS not in place.publish().err
    assert 'allotment.dev/generation: "2"' in place.tree("us-1")[POOL.partition("/")[2]]
