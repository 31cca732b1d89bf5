"""NetworkPolicies applied to a real node's packets: those of the API server, translated once into rules of nftables.

A pod that policies select may send, or take in, only what one of them allows, as Kubernetes has it. Packets of a connection
that was allowed go on both ways. All of a pod's packets go through the node, which judges those between pods, to and from
elsewhere (the API server, the internet), and to the node itself. What the node sends to its pods is always allowed, as
Kubernetes says; what a pod sends to its node is judged, as the engines do that we know of. A Service is judged by the pods
behind it. Refused is refused at once, by an answer that nothing else here gives, so that no test takes a silence for it.

It is a second reading of what we render, not an engine: what it can't translate it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, collapse_addresses, ip_address, ip_network
from typing import Any, NamedTuple

from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.world import World

TABLE = "inet policies"
REFUSED = "reject with icmpx admin-prohibited"
INGRESS, EGRESS = "Ingress", "Egress"
RULES = {INGRESS: ("ingress", "from"), EGRESS: ("egress", "to")}
PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}
ENDED = ("Succeeded", "Failed")


class Untranslatable(Exception):
    """A policy has something that isn't translated."""


class _Pod(NamedTuple):
    address: str
    namespace: str
    labels: Mapping[str, str]


class _Known(NamedTuple):
    """The pods of a node, and the labels of the namespaces that they are in."""

    pods: Sequence[_Pod]
    namespaces: Mapping[str, Mapping[str, str]]


def enforce(cluster: Cluster, world: World) -> None:
    """Apply the policies that the API server has now to the pods that the node has now, in place of any before."""
    client = cluster.client
    policies = client.list("networking.k8s.io/v1", "NetworkPolicy")
    rules = translated(policies, client.list("v1", "Pod"), client.list("v1", "Namespace"), world.network.pods)
    _load(world, f"add table {TABLE}\ndelete table {TABLE}\n{rules}")


def lift(world: World) -> None:
    """Apply no policies any more."""
    _load(world, f"add table {TABLE}\ndelete table {TABLE}\n")


def _load(world: World, rules: str) -> None:
    world.run([world.folder / "bin" / "nft", "-f", "-"], rules)


def translated(policies: Iterable[Object], pods: Iterable[Object], namespaces: Iterable[Object], range_: str) -> str:
    """Return the rules of nftables for the pods whose addresses lie in a range. Raises Untranslatable."""
    labels = {namespace["metadata"]["name"]: namespace["metadata"].get("labels", {}) for namespace in namespaces}
    known = _Known([pod for pod_object in pods if (pod := _pod(pod_object, range_)) is not None], labels)
    # Each is read, also where no pod is selected, so that what can't be translated is said wherever it stands.
    read = [(policy, {direction: [*_allowed(policy, direction, known)] for direction in RULES}) for policy in policies]
    chains: dict[str, list[str]] = {INGRESS: [], EGRESS: []}
    lines = [f"table {TABLE} {{"]
    for pod in sorted(known.pods):
        for direction, judged in chains.items():
            selecting = [rules[direction] for policy, rules in read if _selects(policy, pod, direction)]
            if selecting:
                allowed = sorted({line for rules in selecting for line in rules})
                name = f"{direction.lower()}-{pod.address}".replace(".", "-")
                judged.append(f"{pod.address} : jump {name}")
                lines += _chain(name, [*(f"{line}return" for line in allowed), REFUSED])
    egress_rules, ingress_rules = (
        _judged(*arguments) for arguments in (("saddr", chains[EGRESS]), ("daddr", chains[INGRESS]))
    )
    fresh = ["ct state established,related accept"]
    # Nothing here has addresses of IPv6 but those that links have by themselves, which no policy names.
    apart = ['iifname "veth*" meta nfproto ipv6 drop']
    for hook, rules in (("forward", [*egress_rules, *ingress_rules]), ("input", egress_rules)):
        begins = f"type filter hook {hook} priority 10; policy accept;"
        lines += _chain(hook, [begins, *fresh, *apart, *rules])
    return "\n".join([*lines, "}", ""])


def _chain(name: str, rules: Iterable[str]) -> list[str]:
    return [f"  chain {name} {{", *(f"    {rule}" for rule in rules), "  }"]


def _judged(field: str, chains: Sequence[str]) -> list[str]:
    return [f"ip {field} vmap {{ {', '.join(chains)} }}"] if chains else []


def _pod(pod: Object, range_: str) -> _Pod | None:
    """Return a pod with an address of its own in the range: one that has ended, or is in the host's network, has none."""
    status, metadata = pod.get("status", {}), pod["metadata"]
    address = status.get("podIP")
    if address is None or status.get("phase") in ENDED or pod["spec"].get("hostNetwork"):
        return None
    if ip_address(address) not in ip_network(range_):
        return None
    return _Pod(address, metadata["namespace"], metadata.get("labels", {}))


def _selects(policy: Object, pod: _Pod, direction: str) -> bool:
    spec = _only(policy["spec"], "podSelector", "policyTypes", "ingress", "egress")
    types = spec.get("policyTypes") or [INGRESS, *([EGRESS] if spec.get("egress") else [])]
    if not {*types} <= {*RULES}:
        raise Untranslatable(f"policyTypes {types}")
    matches = _matches(spec.get("podSelector") or {}, pod.labels)
    return matches and direction in types and policy["metadata"]["namespace"] == pod.namespace


def _allowed(policy: Object, direction: str, known: _Known) -> Iterator[str]:
    """Yield the beginnings of rules, each of which matches packets that a policy allows."""
    field, peers = RULES[direction]
    side = "saddr" if direction == INGRESS else "daddr"
    for rule in policy["spec"].get(field) or ():
        _only(rule, peers, "ports")
        ports = [_port(rule_port) for rule_port in rule.get("ports") or ()] or [""]
        listed = rule.get(peers) or ()
        others = [line for peer in listed for line in _peer(peer, side, policy["metadata"]["namespace"], known)]
        for other in others if listed else [""]:
            yield from (f"{other}{port}" for port in ports)


def _peer(peer: Mapping[str, Any], side: str, namespace: str, known: _Known) -> Iterator[str]:
    _only(peer, "podSelector", "namespaceSelector", "ipBlock")
    if "ipBlock" in peer:
        if len(peer) > 1:
            raise Untranslatable(f"an ipBlock beside a selector: {peer}")
        yield from _block(peer["ipBlock"], side)
        return
    spaces = {namespace}
    if (selector := peer.get("namespaceSelector")) is not None:
        spaces = {name for name, labels in known.namespaces.items() if _matches(selector, labels)}
    selector = peer.get("podSelector") or {}
    addresses = [pod.address for pod in known.pods if pod.namespace in spaces and _matches(selector, pod.labels)]
    if addresses:
        yield f"ip {side} {{ {', '.join(sorted(addresses))} }} "


def _block(block: Mapping[str, Any], side: str) -> Iterator[str]:
    """Yield what matches a range. A pod has no address of IPv6, so that nothing matches such a range."""
    _only(block, "cidr", "except")
    if ip_network(block["cidr"]).version == 4:
        denied = collapse_addresses(IPv4Network(cidr) for cidr in block.get("except") or ())  # sets have no range twice
        listed = ", ".join(map(str, denied))
        less = f"ip {side} != {{ {listed} }} " if listed else ""
        yield f"ip {side} {block['cidr']} {less}"


def _port(port: Mapping[str, Any]) -> str:
    _only(port, "protocol", "port", "endPort")
    protocol = PROTOCOLS.get(port.get("protocol", "TCP"))
    number = port.get("port")
    if protocol is None or isinstance(number, str):
        raise Untranslatable(f"the port {dict(port)}")
    if number is None:
        return f"meta l4proto {protocol} "
    last = f"-{port['endPort']}" if "endPort" in port else ""
    return f"{protocol} dport {number}{last} "


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    _only(selector, "matchLabels", "matchExpressions")
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    held = [_holds(expression, labels) for expression in selector.get("matchExpressions") or ()]
    return equal and all(held)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise Untranslatable(f"the operator {expression['operator']}")


def _only(fields: Mapping[str, Any], *translated: str) -> Mapping[str, Any]:
    """Return what has no other fields than these. Raises Untranslatable."""
    if others := fields.keys() - {*translated}:
        raise Untranslatable(f"{', '.join(sorted(others))} of {dict(fields)}")
    return fields
