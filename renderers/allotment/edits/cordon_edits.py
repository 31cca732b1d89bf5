"""Cordons nodes, drains them and ends their cordons: the edits of `allot node`."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping

from allotment.declared.document_editor import SetField, edit_document
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.cordon import Cordon
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.layout import DEFAULT_MAX_NAME_LENGTH, Scope, name_error
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, check_declaration, parse_number
from allotment.manifests.yaml_text import without_empty
from allotment.problems import OperationRefused, pluralize, quote_value

MAX_DAYS = 30  # of a node in a renewal
_DIGEST_LENGTH = 6
_SEPARATORS = re.compile("[^a-z0-9]+")


def cordon_node(
    declarations: Declarations,
    cluster: str,
    node: str,
    values: Mapping[str, str | None],
    today: datetime.date,
    *,
    drain: bool,
) -> ChangeSet:
    """Return the change that declares a cordon of a node. `values` has the values of CORDON_OPTIONS.

    Without a first day, the cordon begins `today`. With `drain`, instances move to other nodes. If the node has a cordon
    already, `drain` changes it, and the other values must be absent. Raises OperationRefused.
    """
    scope = Scope("cluster", cluster)
    cordons = _find_cordons(declarations, scope, node)
    present = [cordon for cordon in cordons if not cordon.model.spec.has_ended(today)]
    if present and drain and not any(values.values()):
        title = f"Drain node {cluster}/{node}"
        return merge_change_sets([_drain_now(cordon, title) for cordon in present], title)
    if present:
        raise OperationRefused(
            f"{cluster}/{node} has a cordon in {present[0].path}: edit it, or uncordon the node first"
        )
    ended = {cordon.model.name: cordon.path for cordon in cordons}
    name = values["name"] or _name_cordon(node)
    path = ended.get(name) or declarations.create_path(Cordon, scope, name)
    fields = {
        "nodePool": _choose_pool(declarations, scope, values["pool"]),
        "node": node,
        "reason": values["reason"],
        "evidence": values["evidence"],
        "from": values["start"] or today.isoformat(),
        "until": values["until"],
        "drain": "Now" if drain else None,
    }
    data = check_declaration(path, build_declaration(path, without_empty(fields)))
    verb = "Drain" if drain else "Cordon"
    return ChangeSet(f"{verb} node {cluster}/{node}", {path: data}, (f"Node {cluster}/{node}",))


def renew_nodes(
    declarations: Declarations,
    cluster: str,
    pool: str,
    nodes: Iterable[str],
    values: Mapping[str, str],
    today: datetime.date,
    *,
    drain: bool,
) -> ChangeSet:
    """Return the change that cordons the nodes of a pool in turn, in the order of their names.

    `values` has the values of RENEWAL_OPTIONS: the first day, the days for each node, and the reason. Nodes with a cordon are
    left out. Raises OperationRefused if a value is invalid, or if no node is left.
    """
    first, days = _read_first_day(values["start"] or today.isoformat()), parse_number(values["days"])
    if not isinstance(days, int) or not 1 <= days <= MAX_DAYS:
        raise OperationRefused(f"--days: {quote_value(values['days'])} is not a whole number from 1 to {MAX_DAYS}")
    scope = Scope("cluster", cluster)
    declarations.find(NodePool, scope, pool)
    cordons = [declarations.find(Cordon, scope, name).model.spec for name in declarations.list_names(Cordon, scope)]
    present = {cordon.node for cordon in cordons if not cordon.has_ended(today)}
    remaining = sorted(set(nodes) - present)
    if not remaining:
        raise OperationRefused(
            f"no report has a node of pool {cluster}/{pool} without a cordon, so there is nothing to renew"
        )
    changes = []
    for number, node in enumerate(remaining):
        try:
            start, until = (first + datetime.timedelta(days * count) for count in (number, number + 1))
        except OverflowError:
            raise OperationRefused(f"--from: {first} is too late for {pluralize(len(remaining), 'node')}") from None
        fields = {"pool": pool, "reason": values["reason"], "start": start.isoformat(), "until": until.isoformat()}
        cordon = {**dict.fromkeys(("evidence", "name")), **fields}
        changes.append(cordon_node(declarations, cluster, node, cordon, today, drain=drain))
    return merge_change_sets(changes, f"Renew {pluralize(len(changes), 'node')} of pool {cluster}/{pool}")


def _read_first_day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise OperationRefused(f"--from: {quote_value(text)} is not a date: write a day such as 2026-01-31") from None


def uncordon_node(declarations: Declarations, cluster: str, node: str) -> ChangeSet:
    """Return the change that removes the cordons of a node. Raises OperationRefused if the node has none."""
    cordons = _find_cordons(declarations, Scope("cluster", cluster), node)
    if not cordons:
        raise OperationRefused(
            f"no cordon names node {quote_value(node)} of cluster {cluster}; a cordon without `node` takes the whole pool, and"
            " ends when its file is removed"
        )
    changes = {cordon.path: None for cordon in cordons}
    return ChangeSet(f"Uncordon node {cluster}/{node}", changes, (f"Node {cluster}/{node}",))


def _name_cordon(node: str) -> str:
    """Return the name of a node's cordon: the name of the node without dots. A long name ends with a part of its hash."""
    name = _SEPARATORS.sub("-", node.lower()).strip("-")
    name = name if name[:1].isalpha() else f"node-{name}"
    if name_error(name, DEFAULT_MAX_NAME_LENGTH) is None:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: DEFAULT_MAX_NAME_LENGTH - _DIGEST_LENGTH - 1].rstrip('-')}-{digest}"


def _find_cordons(declarations: Declarations, scope: Scope, node: str) -> list[DeclarationFile[Cordon]]:
    """Return the cordons of a node, sorted by name."""
    declarations.check_scope(scope)
    cordons = [declarations.find(Cordon, scope, name) for name in declarations.list_names(Cordon, scope)]
    return [cordon for cordon in cordons if cordon.model.spec.node == node]


def _drain_now(cordon: DeclarationFile[Cordon], title: str) -> ChangeSet:
    data = edit_document(cordon.data, Cordon, [SetField(("spec", "drain"), "Now")])
    return ChangeSet(title, {cordon.path: data}, (f"Cordon {cordon.model.name}",))


def _choose_pool(declarations: Declarations, scope: Scope, pool: str | None) -> str:
    """Return the pool of a node: the named pool, or the only pool of the cluster. Raises OperationRefused."""
    names = declarations.list_names(NodePool, scope)
    if pool is not None:
        return declarations.find(NodePool, scope, pool).model.name
    if len(names) != 1:
        raise OperationRefused(
            f"--pool: the node pools of {scope.name} are {', '.join(names) or 'none'}: name the pool of the node"
        )
    return names[0]
