"""What would replace a pool's nodes is published only once those who run there are protected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import PROJECT, edit
from tests.services.publish.written import before, checked
from tests.support.published import Place

from allotment.adapters.folder_source import FolderSource
from allotment.manifests.tenant import disruption
from allotment.manifests.yaml_text import dump, load
from allotment.services.publish.node_replacement import HeldPool, NodeReplacementGuard
from allotment.services.publish.observed_state import ObservedState, ObservedTenant
from allotment.services.publish.published_trees import PublishedTrees

GOLDEN = PROJECT / "tests/manifests/golden/us-1"
POOL = "us-1/platform/node-pools/h100.rendered.yaml"
NAMESPACE = "control/namespaces/m/ml-orbit.rendered.yaml"
BUDGET = b"kind: PodDisruptionBudget"
NOW = (GOLDEN / POOL.partition("/")[2]).read_bytes()
THEN = NOW.replace(b"expireAfter: Never", b"expireAfter: 720h")
SEEN, SILENT = {"us-1": "2026-11-23T10:00:00Z"}, dict[str, str]()
TENANTS = ("acme-robotics", "ml-orbit")
PROTECTED = {tenant: ObservedTenant(pdb_clusters=frozenset(("us-1",))) for tenant in TENANTS}
STAY = "us-1: NodePool h100: its nodes are not replaced until the instances of acme-robotics, ml-orbit are "
BEGUN = f"{STAY}protected from node drains; this publish adds the protection, and a later publish replaces the nodes"
UNSEEN = (
    f"{STAY}reported as protected from node drains: check that the Applications allotment--namespaces-…--us-1 are Synced, and"
    " that the cluster's reporter is of this version and may list PodDisruptionBudgets"
)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def published(*, pool: bytes = THEN, budget: bool = True) -> PublishedTrees:
    files = {f"us-1/{path.relative_to(GOLDEN)}": path.read_bytes() for path in GOLDEN.rglob("*.yaml")}
    for path in files if not budget else ():
        files[path] = b"---\n".join(document for document in files[path].split(b"---\n") if BUDGET not in document)
    return before({**files, POOL: pool})


def guard_of(
    was: PublishedTrees,
    known: dict[str, ObservedTenant],
    observed: dict[str, str],
    untrusted: tuple[str, ...] = (),
    root: Path = PROJECT,
) -> NodeReplacementGuard:
    observed_state = ObservedState(known, observed, troubles=dict.fromkeys(untrusted, "unsigned"))
    return NodeReplacementGuard(checked(FolderSource(root)).catalog, was, observed_state)


def held_data(guard: NodeReplacementGuard, data: bytes) -> bytes:
    """Return the file of a pool whose nodes stay."""
    held = guard.hold_template(POOL, data)
    assert held is not None
    return held.data


@pytest.mark.parametrize(
    ("was", "known", "observed", "untrusted", "words"),
    [
        (published(budget=False), {}, SILENT, (), BEGUN),
        (published(budget=False), {}, SEEN, (), BEGUN),
        (published(), {}, SEEN, (), UNSEEN),
        (published(), {}, SILENT, ("us-1",), UNSEEN),
        (published(budget=False), PROTECTED, SEEN, (), BEGUN),
    ],
    ids=["not published", "neither published nor seen", "not seen", "status in doubt", "seen, and taken away since"],
)
def test_nodes_stay_until_instances_are_protected(
    was: PublishedTrees,
    known: dict[str, ObservedTenant],
    observed: dict[str, str],
    untrusted: tuple[str, ...],
    words: str,
) -> None:
    replacement_guard = guard_of(was, known, observed, untrusted)
    assert replacement_guard.hold_template(POOL, NOW) == HeldPool(POOL, THEN, words)


def test_a_cluster_that_is_to_be_reported_is_waited_for(sample: Path) -> None:
    edit(sample, "clusters/us-1/cluster.yaml", "spec:\n", f"spec:\n  reporter: {{publicKey: {KEY}}}\n")
    replacement_guard = guard_of(published(), {}, SILENT, root=sample)
    assert replacement_guard.hold_template(POOL, NOW) == HeldPool(POOL, THEN, UNSEEN)


@pytest.mark.parametrize(("known", "observed"), [(PROTECTED, SEEN), ({}, SILENT)], ids=["seen", "nothing reports"])
def test_nodes_are_replaced_once_they_are(known: dict[str, ObservedTenant], observed: dict[str, str]) -> None:
    replacement_guard = guard_of(published(), known, observed)
    assert replacement_guard.hold_template(POOL, NOW) is None


def test_hold_template_accepts_a_change_that_replaces_no_node() -> None:
    more = NOW.replace(b'nvidia.com/gpu: "16"', b'nvidia.com/gpu: "32"')
    assert more != NOW
    replacement_guard = guard_of(published(pool=NOW, budget=False), {}, SILENT)
    assert replacement_guard.hold_template(POOL, more) is None
    assert replacement_guard.hold_template("us-1/platform/node-pools/new.rendered.yaml", NOW) is None
    both = held_data(guard_of(published(budget=False), {}, SILENT), more)
    assert both == THEN.replace(b'nvidia.com/gpu: "16"', b'nvidia.com/gpu: "32"'), "the limit grows, the nodes stay"


def test_a_node_class_replaces_nodes_too() -> None:
    other = NOW.replace(b"channel: stable", b"channel: next")
    assert other != NOW
    assert held_data(guard_of(published(pool=NOW, budget=False), {}, SILENT), other) == NOW
    of_another = dump([manifest for manifest in load(NOW) if manifest["kind"] != "EC2NodeClass"]).replace(
        b"EC2NodeClass", b"AKSNodeClass"
    )
    assert load(held_data(guard_of(published(pool=NOW, budget=False), {}, SILENT), of_another)) == load(NOW)


def test_a_pool_that_goes_takes_nobody_along() -> None:
    inner = POOL.partition("/")[2]
    rendered = [path for path in published().branches["us-1"].files if path != inner]
    assert rendered
    replacement_guard = guard_of(published(budget=False), {}, SILENT)
    assert list(replacement_guard.retain_removed_pools("us-1", rendered)) == [HeldPool(POOL, THEN, BEGUN)]
    assert list(guard_of(published(), PROTECTED, SEEN).retain_removed_pools("us-1", rendered)) == []


def test_a_publish_protects_first_and_replaces_in_the_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:  # a version of ours that knew no budgets
        earlier.setattr(disruption, "render", lambda *_: [])
        place.publish()
    edit(place.root, "clusters/us-1/node-pools/h100.yaml", "  karpenter:\n", "  generation: 2\n  karpenter:\n")
    place.merge()
    first = place.publish()
    assert f"waits: {BEGUN}" in first.err
    assert "PodDisruptionBudget" in place.tree("us-1")[NAMESPACE]
    assert "generation" not in place.tree("us-1")[POOL.partition("/")[2]]
    assert STAY not in place.publish().err
    assert 'allotment.dev/generation: "2"' in place.tree("us-1")[POOL.partition("/")[2]]
