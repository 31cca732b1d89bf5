"""What is declared otherwise than before, whether or not anything is rendered from it: who may do what, prices, plans,
capacity, clusters, apps.

Instances, storages and snapshots are told by what becomes of them (`comparison`) and of their addresses (`reach`); of
theirs only who may copy a storage stands here, and what nothing is rendered from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from allotment.accounts.pricing import price_on
from allotment.changes.approvers import meaning
from allotment.changes.fields import (
    CUT,
    WHOLE,
    FieldChange,
    Noted,
    Widths,
    differences,
    digest,
    leaves_of,
    one_by_one,
)
from allotment.declared.inventory import Declared, Folder
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.ownership import Ownership
from allotment.declared.things import THINGS

Topic = Literal[
    "access",
    "approvals",
    "addresses",
    "prices",
    "plans",
    "tenants",
    "capacity",
    "clusters",
    "apps",
    "offers",
    "platform",
]
TOPICS: tuple[Topic, ...] = (
    "access", "approvals", "addresses", "prices", "plans", "tenants", "capacity", "clusters", "apps", "offers", "platform",
)  # fmt: skip
NEVER_CUT: tuple[Topic, ...] = ("access", "approvals")
_OF_KIND: Mapping[str, Topic] = {
    "Members": "access",
    "Ownership": "approvals",
    "Plan": "plans",
    "Tenant": "tenants",
    "NodePool": "capacity",
    "Stock": "capacity",
    "Cluster": "clusters",
    "App": "apps",
    "GPUSpec": "offers",
    "StorageSpec": "offers",
}
# Fields that say more than their kind does: who gets in, who is believed, what runs in all clusters, what may be deleted.
_OF_FIELD: Mapping[tuple[str, str], Topic] = {
    ("AddOn", "spec.chart"): "access",
    ("AddOn", "spec.manifests"): "access",
    ("AddOn", "spec.clusterResources"): "access",
    ("AddOn", "spec.otherNamespaces"): "access",
    ("AddOn", "spec.namespace"): "access",
    ("AddOn", "spec.values"): "access",
    ("AddOn", "spec.clusters"): "access",
    ("Cluster", "spec.oidc"): "access",
    ("Cluster", "spec.network"): "access",
    ("Cluster", "spec.reporter"): "access",
    ("Plan", "spec.allow"): "access",
    ("Platform", "spec.git"): "access",
    ("Platform", "spec.publisher"): "access",
    ("Platform", "spec.images"): "access",
    ("Platform", "spec.brake"): "approvals",
    ("Platform", "spec.deletion"): "approvals",
    ("GPUStorage", "spec.sharedWith"): "access",
}
# Kinds of which one that comes or goes is told field by field, each under its own topic.
_FIELD_BY_FIELD = ("AddOn", "Plan")
_PRICES = {"spec.prices": "prices", "spec.snapshotPrices": "snapshot_prices"}
PUBLIC = "Public"
_PUBLIC = PUBLIC.encode()
_INSIDE = "Namespace"
_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True)
class DeclaredChange:
    """A field of a file that changes, its values as a person reads them and None where it has none; `note` says what that
    means. With `field` empty the whole declaration comes or goes; a field without a value at both ends shows `note` alone."""

    topic: Topic
    path: str
    field: str
    before: str | None
    after: str | None
    note: str = ""

    @property
    def words(self) -> str:
        """The change without its file."""
        if self.field and self.before is None and self.after is None:
            return self.note
        text = str(FieldChange(self.field, self.before, self.after))
        return f"{text} ({self.note})" if self.note else text


def declared_changes(before: Folder, after: Folder, currency: str, noted: Noted) -> list[DeclaredChange]:
    """Return what a folder declares otherwise, what is most dangerous first."""
    changes: list[DeclaredChange] = []
    for name, kind in KINDS.items():
        was, is_now = before.of(kind.model), after.of(kind.model)
        for each in was.keys() | is_now.keys():
            old, new = was.get(each), is_now.get(each)
            if new is None and not after.lacks(kind.model, each):
                continue  # a problem says that it can't be read
            if old is None or new is None or old.data != new.data:
                changes += _of(name, old, new, currency, noted)
    return sorted(changes, key=in_order)


def untold(before: Folder, after: Folder, reported_paths: Collection[str], noted: Noted) -> Iterator[DeclaredChange]:
    """Yield what the files of a tenant's things declare otherwise, but those whose change is `reported_paths`, by what is rendered from
    them: what else they say, such as a name for people, is rendered nowhere."""
    for kind in (resource_kind.kind for resource_kind in THINGS.values()):
        was, is_now = before.of(kind.model), after.of(kind.model)
        for name in sorted(was.keys() | is_now.keys()):
            old, new = was.get(name), is_now.get(name)
            declaration = new or old
            if (
                declaration is None
                or declaration.path in reported_paths
                or (new is None and not after.lacks(kind.model, name))
            ):
                continue
            if old is None or new is None:
                text = digest(declaration)
                yield DeclaredChange("tenants", declaration.path, "", None if new else text, text if new else None)
                continue
            for change in noted.of(old, new):
                if _topic(kind.name, change) != "access":  # told already
                    yield DeclaredChange("tenants", declaration.path, change.field, change.before, change.after)


def in_order(change: DeclaredChange) -> tuple[int, str, str, bool]:
    """Return what sorts changes: the most dangerous first, and what goes before what comes."""
    return TOPICS.index(change.topic), change.path, change.field, change.before is None


def _of(
    kind: str, old: Declared[Declaration] | None, new: Declared[Declaration] | None, currency: str, noted: Noted
) -> Iterator[DeclaredChange]:
    declaration = new or old
    assert declaration is not None
    is_thing = kind in {resource_kind.kind.name for resource_kind in THINGS.values()}
    if kind == "App":
        yield from _opened(old, new)
    if (old is None or new is None) and not (is_thing or kind in _FIELD_BY_FIELD or _OF_KIND.get(kind) in NEVER_CUT):
        text = digest(declaration)
        yield DeclaredChange(
            _OF_KIND.get(kind, "platform"), declaration.path, "", None if new else text, text if new else None
        )
        for change in one_by_one(declaration, WHOLE, added=old is None):  # these may lie behind the first fields
            topic: Topic = "prices" if _listed(change) in _PRICES else _topic(kind, change)
            if topic == "prices" or topic in NEVER_CUT:
                yield DeclaredChange(topic, declaration.path, change.field, change.before, change.after)
        return

    def written(widths: Widths) -> list[FieldChange]:
        if old is not None and new is not None:
            return noted.of(old, new, widths)
        return one_by_one(declaration, widths, added=old is None)

    fields = _uncut(kind, written)
    prices = set[str]()
    for change in fields:
        topic = _topic(kind, change)
        if kind == "App" and change.field.endswith(".exposure") and PUBLIC in (change.before, change.after):
            continue  # told already
        if is_thing and topic != "access":
            continue
        if kind == "App" and (led := _led(change, new)):
            yield led
            continue
        listed = _listed(change)
        if listed in _PRICES and old is not None and new is not None:
            prices.add(listed)
            continue
        yield DeclaredChange(
            topic, declaration.path, change.field, change.before, change.after, _note(change, old, new)
        )
    for listed in sorted(prices):
        assert old is not None and new is not None
        yield from _priced(listed, old, new, currency)


def _listed(change: FieldChange) -> str:
    """Return the list that a field lies in an entry of; another field as it is."""
    return change.field.partition("[")[0]


def _uncut(kind: str, written: Callable[[Widths], list[FieldChange]]) -> list[FieldChange]:
    """Return the fields that differ, to their end where they say who may do what: the end of a host is whose it is."""
    fields = written(CUT)
    cut_fields = [change for change in fields if not _is_never_cut(kind, change)]
    if len(cut_fields) == len(fields):
        return fields
    return [*cut_fields, *(change for change in written(WHOLE) if _is_never_cut(kind, change))]


def _is_never_cut(kind: str, change: FieldChange) -> bool:
    return _topic(kind, change) in NEVER_CUT or (kind == "App" and change.field.endswith(".containerPort"))


def _topic(kind: str, change: FieldChange) -> Topic:
    for (field_kind, field), topic in _OF_FIELD.items():
        if field_kind == kind and (change.field == field or change.field.startswith((f"{field}.", f"{field}["))):
            return topic
    return _OF_KIND.get(kind, "platform")


def _opened(old: Declared[Declaration] | None, new: Declared[Declaration] | None) -> Iterator[DeclaredChange]:
    """Yield what an App opens to everybody, without a login, before or afterwards; what is removed is told as that."""
    if new is None or not any(
        declaration is not None and _may_be_public(declaration.data) for declaration in (old, new)
    ):
        return
    was, is_now = ({} if declaration is None else leaves_of(declaration, "exposure") for declaration in (old, new))
    for field in was.keys() | is_now.keys():
        before, after = was.get(field), is_now.get(field)
        if before != after and PUBLIC in (before, after):
            note = "for everybody, without a login" if after == PUBLIC else ""
            yield DeclaredChange("access", new.path, field, before, after, note)


def _led(change: FieldChange, new: Declared[Declaration] | None) -> DeclaredChange | None:
    """Return that a port of an App, which others than its tenant's own programs reach, has another number: what answers them
    is something else."""
    port, dot, last = change.field.rpartition(".")
    if new is None or last != "containerPort" or change.before is None or change.after is None:
        return None
    exposure = leaves_of(new, "exposure").get(f"{port}{dot}exposure", _INSIDE)
    note = f"leads to port {change.after}, not {change.before}: exposure {exposure}"
    return (
        None
        if exposure == _INSIDE
        else DeclaredChange("access", new.path, change.field, change.before, change.after, note)
    )


def _may_be_public(data: bytes) -> bool:
    """Return whether a file can say Public anywhere: to write it otherwise takes an escape."""
    return _PUBLIC in data or b"\\" in data


def _note(change: FieldChange, old: Declared[Any] | None, new: Declared[Any] | None) -> str:
    if new is not None and isinstance(new.model, Ownership):
        return meaning(change, new.model.spec)
    if old is None or new is None:
        return ""
    if change.field == "spec.budget.perMonth" and change.before is not None and change.after is not None:
        return percent(Decimal(old.model.spec.budget.per_month), Decimal(new.model.spec.budget.per_month))
    if isinstance(old.model, NodePool) and change.field in ("spec.static.nodes", "spec.karpenter.maxNodes"):
        gpus = [each.model.spec.most_nodes * each.model.spec.node.gpu.count for each in (old, new)]
        return f"{gpus[0]} → {gpus[1]} {new.model.spec.node.gpu.model} GPUs at most"
    if isinstance(new.model, NodePool) and change.field == "spec.generation":
        return "every node is replaced, one at a time; an instance of one copy stays until it stops"
    return ""


def percent(before: Decimal, after: Decimal) -> str:
    """Return by how much an amount changes, such as +42.9 %; empty where it was nothing."""
    if not before:
        return ""
    change = ((after - before) * _HUNDRED / before).quantize(Decimal("0.1"), rounding="ROUND_HALF_UP")
    return f"{'' if change < 0 else '+'}{change} %"


def _priced(listed: str, old: Declared[Any], new: Declared[Any], currency: str) -> Iterator[DeclaredChange]:
    """Yield from which day on another price holds: of each day that a price begins on, at either end."""
    was, is_now = (getattr(declaration.model.spec, _PRICES[listed]) for declaration in (old, new))
    if not was or not is_now:
        for change in differences(old, new):
            if change.field.startswith(listed):
                yield DeclaredChange("prices", new.path, change.field, change.before, change.after)
        return
    last: tuple[Decimal, Decimal] | None = None
    for day in sorted({price.start for price in (*was, *is_now)}):
        amounts = _amount(price_on(was, day)), _amount(price_on(is_now, day))
        if amounts != last and amounts[0] != amounts[1]:
            unit = f"{currency} {'an hour' if hasattr(is_now[0], 'per_hour') else 'a GiB and month'}"
            note = ", ".join(part for part in (unit, percent(*amounts)) if part)
            old_text, new_text = (f"{amount:f}" for amount in amounts)
            yield DeclaredChange("prices", new.path, f"{listed} from {day}", old_text, new_text, note)
        elif last is not None and last[0] != last[1] and amounts[0] == amounts[1]:
            yield DeclaredChange(
                "prices", new.path, f"{listed} from {day}", f"{amounts[0]:f}", f"{amounts[1]:f}", "as before"
            )
        last = amounts


def _amount(price: Any) -> Decimal:
    amount: Decimal = price.per_hour if hasattr(price, "per_hour") else price.per_gib_month
    return amount
