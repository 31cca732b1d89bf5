"""The connections that NetworkPolicies of a rendered tree allow, as the library cyclonus judges them, and a table of them.

The tree says which pods there are. Pods of the platform's own namespaces, and addresses outside of the cluster, stand beside
them. A judgement has two sides: the policies of the source decide on egress, those of the destination on ingress.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from textwrap import wrap
from typing import Any, NamedTuple

from allotment.manifests import names
from tests.controlplane import programs
from tests.controlplane.client import Object

POD_ADDRESS = "10.244.0.1"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
OTHER_PORT = 22  # nothing that we render declares it
WORKLOADS = ("Deployment", "Job")
ROLES = {names.FILES_ROLE: "file accessor", names.PREPARE_ROLE: "preparation", names.COPY_ROLE: "copy"}
METADATA = ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "fd00:ec2::254")
PRIVATE = ("10.96.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1")  # where API servers, nodes and Services are
NODE_LOCAL_DNS = "169.254.20.10"
PUBLIC = ("93.184.215.14", "2606:2800:21f::1")
OPEN, OUT, IN, BOTH, SOME = "open", "out", "in", "both", "some"
VERDICTS = {(True, True): OPEN, (False, True): OUT, (True, False): IN, (False, False): BOTH}
HEADER = """\
# Which connections the NetworkPolicies of {cluster} allow, once every preparation of the sample has finished.
# open: allowed. out: the policies of the source deny it. in: those of the destination deny it. both: each of them denies it.
# some: the open connections are listed below the table. For a source outside of tenants, each tenant is another tenant."""


class Peer(NamedTuple):
    """A pod, or an address outside of the cluster: `namespace` is then empty. `ports` are (protocol, port)."""

    name: str
    kind: str
    ports: tuple[tuple[str, int], ...]
    namespace: str = ""
    tenant: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    namespace_labels: tuple[tuple[str, str], ...] = ()
    address: str = POD_ADDRESS

    @property
    def rendered(self) -> bool:
        """Whether the rendered tree contains the pod."""
        return bool(self.tenant) or self.namespace == names.STOCK_NAMESPACE

    def traffic_peer(self) -> dict[str, Any]:
        """Return it as cyclonus reads it."""
        if not self.namespace:
            return {"IP": self.address}
        namespace_labels = {NAMESPACE_NAME: self.namespace, **dict(self.namespace_labels)}
        pod = {"PodLabels": dict(self.labels), "NamespaceLabels": namespace_labels, "Namespace": self.namespace}
        return {"IP": self.address, "Internal": pod}


class Connection(NamedTuple):
    """A connection of one peer to a port of another."""

    source: Peer
    destination: Peer
    protocol: str
    port: int

    @property
    def crosses(self) -> bool:
        """Whether it goes from one tenant to another."""
        return bool(self.source.tenant and self.destination.tenant) and self.source.tenant != self.destination.tenant

    @property
    def place(self) -> str:
        """The row of the table: what the destination is to the source."""
        kind, port = self.destination.kind, f"{self.port}/{self.protocol}"
        if not self.destination.tenant:
            return f"{kind} {port}"
        owner = "the same" if self.source.tenant == self.destination.tenant else "another"
        declared = (self.protocol, self.port) in self.destination.ports and self.port != OTHER_PORT
        return f"{kind} of {owner} tenant, {'declared port' if declared else port}"

    def __str__(self) -> str:
        source, destination = (f"{peer.kind} {peer.name}" for peer in (self.source, self.destination))
        return f"{source} -> {destination} {self.port}/{self.protocol}"


Verdicts = dict[Connection, str]


def pods_of(objects: Sequence[Object]) -> Iterator[Peer]:
    """Yield the pods that rendered objects create, one for each Deployment and Job."""
    spaces = {
        space["metadata"]["name"]: space["metadata"]["labels"] for space in objects if space["kind"] == "Namespace"
    }
    for workload in objects:
        if workload["kind"] not in WORKLOADS:
            continue
        template, space = workload["spec"]["template"], workload["metadata"]["namespace"]
        labels, tenant = template["metadata"]["labels"], template["metadata"]["labels"].get(names.TENANT, "")
        ports = [
            (port.get("protocol", "TCP"), port["containerPort"])
            for container in template["spec"]["containers"]
            for port in container.get("ports", ())
        ]
        kind, resource = _identify(labels)
        yield Peer(
            f"{tenant or space}/{resource}",
            kind,
            (*ports, ("TCP", OTHER_PORT)),
            space,
            tenant,
            tuple(labels.items()),
            tuple(spaces[space].items()),
        )


def _identify(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return what kind of pod has these labels, and the name of its instance, stock or storage."""
    if names.INSTANCE in labels:
        return "instance", labels[names.INSTANCE]
    if names.STOCK in labels:
        return "placeholder", labels[names.STOCK]
    return ROLES[labels[names.ROLE]], labels[names.STORAGE]


def surroundings(gateway: str, object_store: str) -> Iterator[Peer]:
    """Yield pods of other namespaces, of which these two are the cluster's own choice, and addresses outside of the cluster."""
    dns = (("UDP", 53), ("TCP", 53), ("TCP", 9153))
    yield Peer("kube-dns", "kube-dns", dns, "kube-system", labels=(("k8s-app", "kube-dns"),))
    yield Peer("metrics-server", "another pod of kube-system", (("TCP", 53),), "kube-system")
    for space, kind, port in (
        (gateway, "proxy of the Gateway", 443),
        (object_store, "object store", 8080),
        ("argocd", "Argo CD", 8080),
        ("monitoring", "monitoring", 9090),
    ):
        yield Peer(kind, kind, (("TCP", port),), space)
    yield from (_outside(f"metadata {address}", address, 80) for address in METADATA)
    yield from (_outside(f"private {address}", address, 443) for address in PRIVATE)
    yield from (_outside(f"public {address}", address, 443) for address in PUBLIC)
    node_dns = (("UDP", 53), ("TCP", 53), ("TCP", 8080))
    yield Peer(NODE_LOCAL_DNS, f"NodeLocal DNS {NODE_LOCAL_DNS}", node_dns, address=NODE_LOCAL_DNS)


def _outside(kind: str, address: str, port: int) -> Peer:
    return Peer(address, kind, (("TCP", port),), address=address)


def connections(peers: Iterable[Peer]) -> list[Connection]:
    """Return all connections in which a pod of the rendered tree takes part."""
    return [
        Connection(source, destination, *port)
        for source, destination in product(peers, repeat=2)
        if source.rendered or destination.rendered
        for port in destination.ports
    ]


def judge(policies: Sequence[Object], questions: Sequence[Connection]) -> Verdicts:
    """Return a verdict on each connection. Raises RuntimeError when there is nothing to judge, or a policy is malformed."""
    traffic = [
        {
            "Source": question.source.traffic_peer(),
            "Destination": question.destination.traffic_peer(),
            "ResolvedPort": question.port,
            "Protocol": question.protocol,
        }
        for question in questions
    ]
    asked = json.dumps({"policies": policies, "questions": traffic})
    done = subprocess.run(
        [programs.program("reachability")], input=asked, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    answers = json.loads(done.stdout)
    return {
        question: VERDICTS[answer["egress"], answer["ingress"]]
        for question, answer in zip(questions, answers, strict=True)
    }


class _Column(NamedTuple):
    """Sources that have the same cell in each row that they share. `cells` maps a row to its cell."""

    kind: str
    cells: dict[str, str]
    sources: list[str]


def table(cluster: str, verdicts: Verdicts) -> str:
    """Return the verdicts as a table: one column for sources of a kind that agree in every row, one row for each kind of place."""
    by_source: dict[Peer, dict[str, set[str]]] = {}
    for connection, verdict in verdicts.items():
        by_source.setdefault(connection.source, {}).setdefault(connection.place, set()).add(verdict)
    cells = {
        source: {row: _cell(row_verdicts) for row, row_verdicts in rows.items()} for source, rows in by_source.items()
    }
    columns = _columns(cells)
    lines = [HEADER.format(cluster=cluster), ""]
    for number, column in enumerate(columns, 1):
        listed = f"{number}  {column.kind}: {', '.join(column.sources)}"
        lines += wrap(listed, 125, subsequent_indent="   ", break_on_hyphens=False)
    rows = sorted({connection.place for connection in verdicts})
    grid = [["", *(str(number) for number in range(1, len(columns) + 1))]]
    grid += [[row, *(column.cells.get(row, "") for column in columns)] for row in rows]
    partly_open = [
        str(connection)
        for connection, verdict in verdicts.items()
        if verdict == OPEN and cells[connection.source][connection.place] == SOME
    ]
    return "\n".join([*lines, "", *_align(grid), "", *sorted(partly_open), ""])


def _columns(cells: Mapping[Peer, dict[str, str]]) -> list[_Column]:
    """Return the columns. A source joins the first column of its kind with which it agrees in every row that both have."""
    columns: list[_Column] = []
    for source, rows in cells.items():
        kind = source.kind if source.rendered else "outside of tenants"
        for column in columns:
            if column.kind == kind and all(column.cells.get(row, cell) == cell for row, cell in rows.items()):
                column.cells.update(rows)
                column.sources.append(source.name)
                break
        else:
            columns.append(_Column(kind, dict(rows), [source.name]))
    return columns


def _align(grid: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    for row in grid:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(row_verdicts: set[str]) -> str:
    """Return one verdict, `some` where a part of the connections is open, or all verdicts that deny."""
    return SOME if OPEN in row_verdicts and len(row_verdicts) > 1 else "/".join(sorted(row_verdicts))
