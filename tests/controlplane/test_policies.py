"""NetworkPolicies as rules of nftables: who is judged, what is let through, and what is refused as untranslatable."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from allotment.declared.kinds.cluster import Cluster
from allotment.manifests.tenant.namespace import allow_internet
from tests.conftest import PROJECT
from tests.controlplane import policies, simulated
from tests.controlplane.policies import REFUSED, Untranslatable

Object = dict[str, Any]
RANGE = "10.89.0.0/24"
NAMESPACES = [{"metadata": {"name": name, "labels": {"name": name}}} for name in ("a", "b", "dns")]


def pod(namespace: str, number: int, app: str, **status: Any) -> Object:
    pod_status = {"podIP": f"10.89.0.{number}", "phase": "Running", **status}
    return {"metadata": {"namespace": namespace, "labels": {"app": app}}, "spec": {}, "status": pod_status}


PODS = [pod("a", 2, "web"), pod("a", 3, "job"), pod("b", 4, "web"), pod("dns", 5, "dns")]


def policy(**spec: Any) -> Object:
    return {"metadata": {"namespace": "a", "name": "some"}, "spec": {"podSelector": {}, **spec}}


def chains(*network_policies: Object, pods: list[Object] = PODS) -> dict[str, list[str]]:
    """Return the rules of each chain by its name."""
    rules_by_chain: dict[str, list[str]] = {}
    for line in policies.translated(network_policies, pods, NAMESPACES, RANGE).splitlines()[1:-1]:
        if line.startswith("  chain "):
            rules = rules_by_chain[line.split()[1]] = []
        elif line != "  }":
            rules.append(line.strip())
    return rules_by_chain


def let_out(**rule: Any) -> list[str]:
    """Return what a rule for what leaves pods of `a` lets through, as the chain of one of them has it."""
    *allowed, last = chains(policy(policyTypes=["Egress"], egress=[rule]))["egress-10-89-0-2"]
    assert last == REFUSED
    return allowed


def test_where_no_policy_is_nobody_is_judged() -> None:
    rules_by_chain = chains()
    assert rules_by_chain.keys() == {"forward", "input"}
    assert not [rule for rules in rules_by_chain.values() for rule in rules if "vmap" in rule]


def test_a_denial_refuses_both_ways_for_the_pods_of_its_namespace_alone() -> None:
    rules_by_chain = chains(policy(policyTypes=["Ingress", "Egress"]))
    judged = {"egress-10-89-0-2", "egress-10-89-0-3", "ingress-10-89-0-2", "ingress-10-89-0-3"}
    assert rules_by_chain.keys() == judged | {"forward", "input"}
    assert all(rules_by_chain[name] == [REFUSED] for name in judged)
    out = "ip saddr vmap { 10.89.0.2 : jump egress-10-89-0-2, 10.89.0.3 : jump egress-10-89-0-3 }"
    into = "ip daddr vmap { 10.89.0.2 : jump ingress-10-89-0-2, 10.89.0.3 : jump ingress-10-89-0-3 }"
    assert rules_by_chain["forward"][-2:] == [out, into]
    assert rules_by_chain["input"][-1] == out  # to the node itself; what it sends to its pods nothing judges


def test_a_connection_that_was_allowed_goes_on() -> None:
    for hook in ("forward", "input"):
        assert chains()[hook][:2] == [
            f"type filter hook {hook} priority 10; policy accept;",
            "ct state established,related accept",
        ]


@pytest.mark.parametrize(
    ("spec", "directions"),
    [({}, {"ingress"}), ({"egress": [{}]}, {"ingress", "egress"}), ({"policyTypes": ["Egress"]}, {"egress"})],
)
def test_directions_that_are_not_said_follow_from_the_rules(spec: Object, directions: set[str]) -> None:
    assert chains(policy(**spec)).keys() - {"forward", "input"} == {
        f"{direction}-10-89-0-{number}" for direction in directions for number in (2, 3)
    }


@pytest.mark.parametrize(
    ("selector", "numbers"),
    [
        ({}, [2, 3]),
        ({"matchLabels": {"app": "web"}}, [2]),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}, [2]),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, [3]),
        ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["web"]}]}, [2, 3]),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, [2, 3]),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, []),
    ],
)
def test_a_selector_picks_pods_by_their_labels(selector: Object, numbers: list[int]) -> None:
    rules_by_chain = chains(policy(podSelector=selector))
    assert rules_by_chain.keys() - {"forward", "input"} == {f"ingress-10-89-0-{number}" for number in numbers}


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ({"podSelector": {}}, ["ip daddr { 10.89.0.2, 10.89.0.3 } return"]),
        ({"namespaceSelector": {"matchLabels": {"name": "b"}}}, ["ip daddr { 10.89.0.4 } return"]),
        (
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}},
            ["ip daddr { 10.89.0.2, 10.89.0.4 } return"],
        ),
        ({"namespaceSelector": {"matchLabels": {"name": "nowhere"}}}, []),
        ({"ipBlock": {"cidr": "192.0.2.0/24"}}, ["ip daddr 192.0.2.0/24 return"]),
        (
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "10.1.0.0/16", "127.0.0.0/8"]}},
            ["ip daddr 0.0.0.0/0 ip daddr != { 10.0.0.0/8, 127.0.0.0/8 } return"],
        ),
        ({"ipBlock": {"cidr": "2000::/3", "except": ["2001:db8::/32"]}}, []),
    ],
)
def test_a_peer_is_let_through(peer: Object, allowed: list[str]) -> None:
    assert let_out(to=[peer]) == allowed


@pytest.mark.parametrize(
    ("ports", "allowed"),
    [
        ([{"port": 80}], ["tcp dport 80 return"]),
        (
            [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
            ["tcp dport 53 return", "udp dport 53 return"],
        ),
        ([{"port": 1, "endPort": 1023}], ["tcp dport 1-1023 return"]),
        ([{"protocol": "SCTP"}], ["meta l4proto sctp return"]),
    ],
)
def test_a_port_is_let_through(ports: list[Object], allowed: list[str]) -> None:
    assert let_out(ports=ports) == allowed


def test_a_rule_that_says_nothing_lets_everything_through() -> None:
    assert let_out() == ["return"]
    assert let_out(to=[], ports=[]) == ["return"]


def test_a_peer_is_let_through_at_the_ports_of_its_rule_alone() -> None:
    assert let_out(to=[{"namespaceSelector": {"matchLabels": {"name": "dns"}}}], ports=[{"port": 53}]) == [
        "ip daddr { 10.89.0.5 } tcp dport 53 return"
    ]


def test_an_ingress_chain_accepts_only_senders_of_a_selected_namespace() -> None:
    rules_by_chain = chains(policy(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"name": "b"}}}]}]))
    assert rules_by_chain["ingress-10-89-0-2"] == ["ip saddr { 10.89.0.4 } return", REFUSED]


def test_a_policy_without_rules_revokes_no_rule_of_another_policy() -> None:
    rules_by_chain = chains(
        policy(policyTypes=["Egress"]), policy(policyTypes=["Egress"], egress=[{"ports": [{"port": 80}]}])
    )
    assert rules_by_chain["egress-10-89-0-2"] == ["tcp dport 80 return", REFUSED]


@pytest.mark.parametrize(
    "gone",
    [{"phase": "Succeeded"}, {"phase": "Failed"}, {"podIP": None}, {"podIP": "10.0.0.2"}],
    ids=["succeeded", "failed", "without an address", "of a simulated node"],
)
def test_chains_skips_a_pod_without_an_address_on_the_node(gone: Object) -> None:
    assert "ingress-10-89-0-2" not in chains(policy(), pods=[pod("a", 2, "web", **gone)])


def test_a_pod_in_the_hosts_network_is_not_judged() -> None:
    host_pod = deepcopy(PODS[0]) | {"spec": {"hostNetwork": True}}
    assert "ingress-10-89-0-2" not in chains(policy(), pods=[host_pod])


@pytest.mark.parametrize(
    "spec",
    [
        {"policyTypes": ["Sideways"]},
        {"else": []},
        {"ingress": [{"from": [], "to": []}]},
        {"ingress": [{"from": [{"serviceSelector": {}}]}]},
        {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}]},
        {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "unless": []}}]}]},
        {"ingress": [{"ports": [{"port": "http"}]}]},
        {"ingress": [{"ports": [{"port": 80, "protocol": "QUIC"}]}]},
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w*"]}]}},
        {"podSelector": {"matchNames": []}},
    ],
)
def test_chains_refuses_an_untranslatable_policy(spec: Object) -> None:
    with pytest.raises(Untranslatable):
        chains(policy(**spec), policy())


def test_chains_refuses_an_untranslatable_policy_that_selects_no_pod() -> None:
    nobody = {"matchLabels": {"app": "nobody"}}
    with pytest.raises(Untranslatable, match=r"the port \{'port': 'http'\}"):
        chains(policy(podSelector=nobody, ingress=[{"ports": [{"port": "http"}]}]))


def test_chains_translates_the_rendered_policy_for_the_internet() -> None:
    place = simulated.declared(PROJECT, "eu-1").get_singleton(Cluster)
    assert place is not None
    (rule,) = let_out(**allow_internet(place.model.spec))
    assert rule.startswith("ip daddr 0.0.0.0/0 ip daddr != { 0.0.0.0/8, 10.0.0.0/8, ")
    assert "169.254.0.0/16" in rule
