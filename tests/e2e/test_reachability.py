"""Who reaches whom under the NetworkPolicies of the sample, as the library cyclonus judges them, and as a golden table.

A change of a cell is a change of reachability: review it before you write the table again. The tests below the table assert
what no golden file may give up.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import pytest

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.manifests import names
from allotment.manifests.tenant import sharing
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope
from tests.conftest import DAY, PROJECT, copy_sample, edit, golden
from tests.controlplane import reachability, rendered
from tests.controlplane.client import Object
from tests.controlplane.fixtures import needs
from tests.controlplane.reachability import BOTH, IN, OPEN, OUT, Connection, Peer, Verdicts
from tests.e2e.conftest import Render

pytestmark = pytest.mark.e2e
GOLDEN = PROJECT / "tests/manifests/reachability"
OBJECT_STORE = "rook-ceph"
# Storage `base` of studio-kite copies `base-models`, which northlight shares: the one declared connection between tenants.
SHARED = {"eu-1": {"copy studio-kite/base -> file accessor northlight/base-models 5000/TCP"}, "us-1": set[str]()}


class Network(NamedTuple):
    """What decides on reachability in a cluster: its policies, and who connects."""

    cluster: str
    policies: list[Object]
    peers: list[Peer]

    def judge(self, policies: Sequence[Object] | None = None) -> Verdicts:
        """Return the verdicts on all connections, under other policies if there are any."""
        return reachability.judge(self.policies if policies is None else policies, reachability.connections(self.peers))


def network_of(root: Path, cluster: str, tree: Path) -> Network:
    """Return the network of a rendered cluster, in which every shared storage is prepared, so that its policy is there."""
    catalog = check_repository(FolderSource(root), datetime.date.fromisoformat(DAY)).catalog
    place = catalog.clusters[cluster].get_singleton(Cluster)
    assert place is not None
    objects = list(rendered.objects(tree))
    pods = list(reachability.pods_of(objects))
    policies = [manifest for manifest in objects if manifest["kind"] == "NetworkPolicy"]
    policies_by_name = {(policy["metadata"]["namespace"], policy["metadata"]["name"]): policy for policy in policies}
    for tenant in sorted({pod.tenant for pod in pods if pod.tenant}):
        for policy in _declared_policies(root, catalog, cluster, tenant):
            policies_by_name[policy["metadata"]["namespace"], policy["metadata"]["name"]] = policy
    gateway = place.model.spec.gateway.effective_proxy_namespace
    peers = [*pods, *reachability.surroundings(gateway, OBJECT_STORE)]
    return Network(cluster, list(policies_by_name.values()), peers)


def _declared_policies(root: Path, catalog: Catalog, cluster: str, tenant: str) -> list[Object]:
    scope = Scope("tenant", tenant)
    folder = read_folder(scope, read_scope(FolderSource(root), scope).files)[0]
    return sharing.render_declared(catalog, catalog.clusters[cluster], folder)


@pytest.fixture(scope="module")
def networks(render: Render) -> dict[str, Network]:
    """Return the networks of the sample's clusters."""
    needs("cyclonus")
    trees = render(PROJECT, "eu-1").parent
    return {cluster: network_of(PROJECT, cluster, trees / cluster) for cluster in SHARED}


@pytest.fixture(scope="module", params=[*SHARED])
def network(request: pytest.FixtureRequest, networks: dict[str, Network]) -> Network:
    return networks[request.param]


@pytest.fixture(scope="module")
def verdicts(network: Network) -> Verdicts:
    return network.judge()


def breaches(verdicts: Verdicts) -> Iterator[Connection]:
    """Yield the connections between tenants that the policies of both sides don't deny."""
    return (connection for connection, verdict in verdicts.items() if connection.crosses and verdict != BOTH)


def test_the_table_is_the_golden_one(network: Network, verdicts: Verdicts) -> None:
    golden(GOLDEN / f"{network.cluster}.txt", reachability.table(network.cluster, verdicts))


def test_two_tenants_connect_only_as_they_declare(network: Network, verdicts: Verdicts) -> None:
    tenants = {peer.tenant for peer in network.peers if peer.tenant}
    pairs = {(c.source.tenant, c.destination.tenant) for c in verdicts if c.crosses}
    assert pairs == {*permutations(tenants, 2)} != set()
    assert {str(connection): verdicts[connection] for connection in breaches(verdicts)} == dict.fromkeys(
        SHARED[network.cluster], OPEN
    )


@pytest.mark.parametrize("address", [*reachability.METADATA, *reachability.PRIVATE])
def test_no_pod_reaches_an_address_of_the_infrastructure(address: str, network: Network, verdicts: Verdicts) -> None:
    reached = {c.source: verdict for c, verdict in verdicts.items() if c.destination.address == address}
    assert reached == {peer: OUT for peer in network.peers if peer.rendered}


def test_a_placeholder_reaches_nothing_and_nothing_reaches_it(network: Network, verdicts: Verdicts) -> None:
    placeholders = {peer for peer in network.peers if peer.namespace == names.STOCK_NAMESPACE}
    assert placeholders
    assert {verdicts[c] for c in verdicts if c.source in placeholders} <= {OUT, BOTH}
    assert {verdicts[c] for c in verdicts if c.destination in placeholders} <= {IN, BOTH}


def test_a_cache_of_dns_is_reached_on_its_port_where_it_is_declared(networks: dict[str, Network]) -> None:
    for cluster, expected in (("eu-1", OPEN), ("us-1", OUT)):
        verdicts = networks[cluster].judge()
        asked = [c for c in verdicts if c.source.tenant and c.destination.address == reachability.NODE_LOCAL_DNS]
        assert {(c.protocol, c.port, verdicts[c]) for c in asked} == {
            ("UDP", 53, expected),
            ("TCP", 53, expected),
            ("TCP", 8080, OUT),
        }


def test_a_denied_range_is_reached_no_more(networks: dict[str, Network], render: Render, tmp_path: Path) -> None:
    root = copy_sample(tmp_path / "repo")
    edit(
        root,
        "clusters/us-1/cluster.yaml",
        "  monitoring:\n",
        "  network:\n    denied: [93.184.215.0/24]\n  monitoring:\n",
    )
    denied, before = network_of(root, "us-1", render(root, "us-1")).judge(), networks["us-1"].judge()
    changed = {c: (before[c], verdict) for c, verdict in denied.items() if before[c] != verdict}
    assert {c.destination.address for c in changed} == {"93.184.215.14"}
    assert {c.source for c in changed} == {peer for peer in networks["us-1"].peers if peer.tenant}
    assert {*changed.values()} == {(OPEN, OUT)}


def test_the_table_shows_each_policy_that_goes(network: Network, verdicts: Verdicts) -> None:
    """The policies `deny-all` of tenants are not among them: `allow-in` and `allow-out` select the same pods."""
    expected = reachability.table(network.cluster, verdicts)
    unseen = set()
    for policy in network.policies:
        without = network.judge([other for other in network.policies if other is not policy])
        if reachability.table(network.cluster, without) == expected:
            unseen.add((policy["metadata"]["namespace"], policy["metadata"]["name"]))
    assert unseen == {(names.namespace(peer.tenant), "deny-all") for peer in network.peers if peer.tenant}


@pytest.mark.parametrize(
    ("direction", "verdict"), [("Ingress", OUT), ("Egress", IN)], ids=["who is let in", "who is let out"]
)
def test_a_policy_that_opens_one_side_is_a_breach(direction: str, verdict: str, networks: dict[str, Network]) -> None:
    everything = {"podSelector": {}, "policyTypes": [direction], direction.lower(): [{}]}
    opening = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "opens", "namespace": names.namespace("ml-orbit")},
        "spec": everything,
    }
    network = networks["us-1"]
    verdicts = network.judge([*network.policies, opening])
    opened = list(breaches(verdicts))
    assert {verdicts[connection] for connection in opened} == {verdict}
    side = "destination" if direction == "Ingress" else "source"
    assert {getattr(connection, side).tenant for connection in opened} == {"ml-orbit"}


def test_a_judgement_needs_policies_and_connections(networks: dict[str, Network]) -> None:
    network = networks["us-1"]
    for policies, connections in (([], reachability.connections(network.peers)), (network.policies, [])):
        with pytest.raises(RuntimeError, match="no policies or no questions"):
            reachability.judge(policies, connections)


def test_a_field_that_kubernetes_does_not_know_is_refused(networks: dict[str, Network]) -> None:
    network = networks["us-1"]
    policy = network.policies[0]
    misspelt = {**policy, "spec": {**policy["spec"], "egres": []}}
    with pytest.raises(RuntimeError, match='unknown field "egres"'):
        network.judge([misspelt])
