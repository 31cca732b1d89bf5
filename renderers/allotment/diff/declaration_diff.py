"""Compare declarations, including fields that affect no manifest, such as permissions, prices, plans and capacity.

`tenant_diff` and `exposure_changes` report the effects of changed instances, storages and snapshots. For these kinds, this
module reports only changes of `spec.sharedWith` (the tenants that may copy a storage) and of fields that are not rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from allotment.capacity.pricing import price_on
from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.ownership import Ownership
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.diff.declared_change import (
    NEVER_TRUNCATED,
    OPEN_TO_EVERY_NETWORK,
    OPEN_TO_EVERYBODY,
    PUBLIC,
    DeclaredChange,
    Topic,
    sort_key,
)
from allotment.diff.field_diff import (
    TRUNCATED,
    UNTRUNCATED,
    DiffCache,
    FieldChange,
    Truncation,
    differences,
    expand,
    summarize_declaration,
    values_of,
)
from allotment.diff.ownership_effects import describe_ownership_effect

_TOPIC_BY_KIND: Mapping[str, Topic] = {
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
# Fields with a different topic than their kind: they affect access, trusted sources, programs in all clusters, or
# limits of deletions.
_TOPIC_BY_FIELD: Mapping[tuple[str, str], Topic] = {
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
    ("Cluster", "spec.secretStore"): "access",
    ("Cluster", "spec.ssh"): "access",
    ("Plan", "spec.allow"): "access",
    ("Platform", "spec.git"): "access",
    ("Platform", "spec.publisher"): "access",
    ("Platform", "spec.portal"): "access",
    ("Platform", "spec.billing.publicKey"): "access",
    ("Platform", "spec.images"): "access",
    ("Plan", "spec.selfService"): "approvals",
    ("Platform", "spec.selfService"): "approvals",
    ("Platform", "spec.brake"): "approvals",
    ("Platform", "spec.deletion"): "approvals",
    ("GPUInstance", "spec.access"): "access",
    ("GPUStorage", "spec.sharedWith"): "access",
    ("Tenant", "spec.allowedCIDRs"): "access",
}
# If a declaration of these kinds is added or removed, each of its fields is reported under the topic of the field.
_EXPANDED_KINDS = ("AddOn", "Plan")
_PRICE_ATTRIBUTES = {"spec.prices": "prices", "spec.snapshotPrices": "snapshot_prices"}
_PUBLIC_BYTES = PUBLIC.encode()
_NAMESPACE_ONLY = "Namespace"
_HUNDRED = Decimal(100)


def declared_changes(
    before: ScopeDeclarations, after: ScopeDeclarations, currency: str, cache: DiffCache
) -> list[DeclaredChange]:
    """Return the changes of a folder's declarations, the most dangerous first."""
    changes: list[DeclaredChange] = []
    for name, kind in KINDS.items():
        old_declarations, new_declarations = before.of_kind(kind.model), after.of_kind(kind.model)
        for each in old_declarations.keys() | new_declarations.keys():
            old, new = old_declarations.get(each), new_declarations.get(each)
            if new is None and not after.is_absent(kind.model, each):
                continue  # a problem reports that the new file is unreadable
            if old is None or new is None or old.data != new.data:
                changes += _changes_of_declaration(name, old, new, currency, cache)
    return sorted(changes, key=sort_key)


def unrendered_changes(
    before: ScopeDeclarations, after: ScopeDeclarations, reported_paths: Collection[str], cache: DiffCache
) -> Iterator[DeclaredChange]:
    """Yield the changed fields of a tenant's resources that affect no manifest, such as a display name.

    `reported_paths` are files that the plan already reports because their manifests change.
    """
    for kind in (resource_kind.kind for resource_kind in RESOURCE_KINDS.values()):
        old_declarations, new_declarations = before.of_kind(kind.model), after.of_kind(kind.model)
        for name in sorted(old_declarations.keys() | new_declarations.keys()):
            old, new = old_declarations.get(name), new_declarations.get(name)
            declaration = new or old
            if (
                declaration is None
                or declaration.path in reported_paths
                or (new is None and not after.is_absent(kind.model, name))
            ):
                continue
            if old is None or new is None:
                text = summarize_declaration(declaration)
                yield DeclaredChange("tenants", declaration.path, "", None if new else text, text if new else None, "")
                continue
            for change in cache.field_changes(old, new):
                if _topic_of_field(kind.name, change) != "access":  # `declared_changes` reports these fields
                    yield DeclaredChange("tenants", declaration.path, change.field, change.before, change.after, "")


def _changes_of_declaration(
    kind: str,
    old: DeclarationFile[Declaration] | None,
    new: DeclarationFile[Declaration] | None,
    currency: str,
    cache: DiffCache,
) -> Iterator[DeclaredChange]:
    declaration = new or old
    assert declaration is not None
    is_thing = kind in {resource_kind.kind.name for resource_kind in RESOURCE_KINDS.values()}
    if kind == "App":
        yield from _made_public(old, new)
    if (old is None or new is None) and not (
        is_thing or kind in _EXPANDED_KINDS or _TOPIC_BY_KIND.get(kind) in NEVER_TRUNCATED
    ):
        text = summarize_declaration(declaration)
        yield DeclaredChange(
            _TOPIC_BY_KIND.get(kind, "platform"), declaration.path, "", None if new else text, text if new else None, ""
        )
        # `text` has only the first fields, but a plan shows every price, and every field that affects access or
        # approvals.
        for change in expand(declaration, UNTRUNCATED, added=old is None):
            topic: Topic = "prices" if _list_field(change) in _PRICE_ATTRIBUTES else _topic_of_field(kind, change)
            if topic == "prices" or topic in NEVER_TRUNCATED:
                yield DeclaredChange(topic, declaration.path, change.field, change.before, change.after, "")
        return

    def written(widths: Truncation) -> list[FieldChange]:
        if old is not None and new is not None:
            return cache.field_changes(old, new, widths)
        return expand(declaration, widths, added=old is None)

    fields = _fields_without_truncation(kind, written)
    prices = set[str]()
    for change in fields:
        topic = _topic_of_field(kind, change)
        if kind == "App" and change.field.endswith(".exposure") and PUBLIC in (change.before, change.after):
            continue  # `_made_public` reports this change
        if is_thing and topic != "access":
            continue
        if kind == "App" and (led := _port_changed(change, new)):
            yield led
            continue
        listed = _list_field(change)
        if listed in _PRICE_ATTRIBUTES and old is not None and new is not None:
            prices.add(listed)
            continue
        yield DeclaredChange(
            topic, declaration.path, change.field, change.before, change.after, _field_note(change, old, new)
        )
    for listed in sorted(prices):
        assert old is not None and new is not None
        yield from _price_changes(listed, old, new, currency)


def _list_field(change: FieldChange) -> str:
    """Return the list that contains a field, such as `spec.prices`; a field outside lists is returned unchanged."""
    return change.field.partition("[")[0]


def _fields_without_truncation(kind: str, written: Callable[[Truncation], list[FieldChange]]) -> list[FieldChange]:
    """Return the changed fields, with long values truncated.

    Values that affect permissions are not truncated. For example, the end of a host name identifies its owner, and
    truncation would remove this end.
    """
    fields = written(TRUNCATED)
    cut_fields = [change for change in fields if not _is_never_truncated(kind, change)]
    if len(cut_fields) == len(fields):
        return fields
    return [*cut_fields, *(change for change in written(UNTRUNCATED) if _is_never_truncated(kind, change))]


def _is_never_truncated(kind: str, change: FieldChange) -> bool:
    return _topic_of_field(kind, change) in NEVER_TRUNCATED or (
        kind == "App" and change.field.endswith(".containerPort")
    )


def _topic_of_field(kind: str, change: FieldChange) -> Topic:
    for (field_kind, field), topic in _TOPIC_BY_FIELD.items():
        if field_kind == kind and (change.field == field or change.field.startswith((f"{field}.", f"{field}["))):
            return topic
    return _TOPIC_BY_KIND.get(kind, "platform")


def _made_public(
    old: DeclarationFile[Declaration] | None, new: DeclarationFile[Declaration] | None
) -> Iterator[DeclaredChange]:
    """Yield each port of an App that becomes Public or is no longer Public, unless the App is removed."""
    if new is None or not any(
        declaration is not None and _may_be_public(declaration.data) for declaration in (old, new)
    ):
        return
    old_exposures, new_exposures = (
        {} if declaration is None else values_of(declaration, "exposure") for declaration in (old, new)
    )
    for field in old_exposures.keys() | new_exposures.keys():
        before, after = old_exposures.get(field), new_exposures.get(field)
        if before != after and PUBLIC in (before, after):
            note = OPEN_TO_EVERYBODY if after == PUBLIC else ""
            yield DeclaredChange("access", new.path, field, before, after, note)


def _port_changed(change: FieldChange, new: DeclarationFile[Declaration] | None) -> DeclaredChange | None:
    """Return the change of an App port's number; None for other fields, or if the port is not exposed.

    The change affects access, because another program may answer at the new number.
    """
    port, dot, last = change.field.rpartition(".")
    if new is None or last != "containerPort" or change.before is None or change.after is None:
        return None
    exposure = values_of(new, "exposure").get(f"{port}{dot}exposure", _NAMESPACE_ONLY)
    note = f"points to port {change.after} instead of {change.before}: exposure {exposure}"
    return (
        None
        if exposure == _NAMESPACE_ONLY
        else DeclaredChange("access", new.path, change.field, change.before, change.after, note)
    )


def _may_be_public(data: bytes) -> bool:
    """Return whether a file may contain the value Public, either as plain text or written with a backslash escape."""
    return _PUBLIC_BYTES in data or b"\\" in data


def _field_note(change: FieldChange, old: DeclarationFile[Any] | None, new: DeclarationFile[Any] | None) -> str:
    if new is not None and isinstance(new.model, Ownership):
        return describe_ownership_effect(change, new.model.spec)
    if old is None or new is None:
        return ""
    if isinstance(new.model, Tenant) and change.field == "spec.allowedCIDRs" and not new.model.spec.allowed_cidrs:
        return OPEN_TO_EVERY_NETWORK
    if change.field == "spec.budget.perMonth" and change.before is not None and change.after is not None:
        return percent_change(Decimal(old.model.spec.budget.per_month), Decimal(new.model.spec.budget.per_month))
    if isinstance(old.model, NodePool) and change.field in ("spec.static.nodes", "spec.karpenter.maxNodes"):
        gpus = [each.model.spec.node_limit * each.model.spec.node.gpu.count for each in (old, new)]
        return f"{gpus[0]} → {gpus[1]} {new.model.spec.node.gpu.model} GPUs at most"
    if isinstance(new.model, NodePool) and change.field == "spec.generation":
        return "replaces every node, one at a time; a node with an instance of a single copy stays until this instance stops"
    return ""


def percent_change(before: Decimal, after: Decimal) -> str:
    """Return the relative change of an amount, such as +42.9 % or 0 %; empty if the amount was zero."""
    if not before:
        return ""
    change = ((after - before) * _HUNDRED / before).quantize(Decimal("0.1"), rounding="ROUND_HALF_UP")
    return f"{change:+} %" if change else "0 %"


def _price_changes(
    listed: str, old: DeclarationFile[Any], new: DeclarationFile[Any], currency: str
) -> Iterator[DeclaredChange]:
    """Yield the differences between the old and the new price, for every day on which a price starts.

    If the old and the new price are the same again from a day on, the day is yielded with the note `as before`.
    """
    before, after = (getattr(declaration.model.spec, _PRICE_ATTRIBUTES[listed]) for declaration in (old, new))
    if not before or not after:
        for change in differences(old, new):
            if change.field.startswith(listed):
                yield DeclaredChange("prices", new.path, change.field, change.before, change.after, "")
        return
    last: tuple[Decimal, Decimal] | None = None
    for day in sorted({price.start for price in (*before, *after)}):
        amounts = _price_amount(price_on(before, day)), _price_amount(price_on(after, day))
        if amounts != last and amounts[0] != amounts[1]:
            unit = f"{currency} {'an hour' if hasattr(after[0], 'per_hour') else 'a GiB and month'}"
            note = ", ".join(part for part in (unit, percent_change(*amounts)) if part)
            old_text, new_text = (f"{amount:f}" for amount in amounts)
            yield DeclaredChange("prices", new.path, f"{listed} from {day}", old_text, new_text, note)
        elif last is not None and last[0] != last[1] and amounts[0] == amounts[1]:
            yield DeclaredChange(
                "prices", new.path, f"{listed} from {day}", f"{amounts[0]:f}", f"{amounts[1]:f}", "as before"
            )
        last = amounts


def _price_amount(price: Any) -> Decimal:
    amount: Decimal = price.per_hour if hasattr(price, "per_hour") else price.per_gib_month
    return amount
