"""Lists the keys and values that may stand at a place of a declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from allotment.declared.field_types import FieldType, find_field_type, format_pattern
from allotment.declared.kinds.app import App
from allotment.editor.facts import DeclaredFacts
from allotment.editor.field_index import Cursor
from allotment.reports.manual_pages import field_page
from allotment.reports.outputs.explain import FieldOutput


class Candidate(NamedTuple):
    """A key or value. `summary` is one line, and `description` is Markdown. `is_text` says whether it is quoted if
    YAML could read it as another type."""

    name: str
    summary: str = ""
    description: str = ""
    is_text: bool = True


def list_keys(facts: DeclaredFacts, cursor: Cursor) -> list[Candidate]:
    """Return the fields that the mapping at the cursor does not have yet, in the order of the manual page."""
    kind = facts.declaration_path.kind
    mapping = find_field_type(kind.model, cursor.field)
    if mapping is None:
        return []
    present = cursor.keys_in(cursor.field)
    pages = [field_page(kind, mapping.annotation, name) for name in mapping.fields if name not in present]
    return [Candidate(page.name, summarize_field(page), page.description) for page in pages]


def list_values(facts: DeclaredFacts, cursor: Cursor) -> list[Candidate]:
    """Return the values that the field at the cursor may have; none if its values can't be listed."""
    kind = facts.declaration_path.kind
    field_type = find_field_type(kind.model, cursor.field)
    if field_type is None:
        return []
    pattern = format_pattern(cursor.field)
    special = _VALUES.get((kind.name, pattern)) or _VALUES.get(("", pattern))
    if special is not None:
        return list(special(facts, cursor))
    if field_type.choices:
        return [Candidate(choice, is_text=field_type.annotation is not bool) for choice in field_type.choices]
    return _list_references(facts, cursor, field_type)


def summarize_field(page: FieldOutput) -> str:
    """Return the type, the limits and the default of a field in one line."""
    absent = "required" if page.required else f"default {page.default}" if page.default else ""
    return ", ".join(filter(None, (page.type, absent, page.limits)))


def _list_references(facts: DeclaredFacts, cursor: Cursor, field_type: FieldType) -> list[Candidate]:
    to = field_type.reference
    if to is None:
        return []
    cluster = cursor.text_at(("spec", "cluster"))
    offers = facts.list_targets(to.kind, cluster if cluster in facts.catalog.clusters else None, buckets=to.bucket)
    return [Candidate(offer.name, offer.summary, offer.description) for offer in offers]


def _own_name(facts: DeclaredFacts, cursor: Cursor) -> Iterator[Candidate]:
    yield Candidate(facts.declaration_path.name, "the name of the file or folder")


def _own_kind(facts: DeclaredFacts, cursor: Cursor) -> Iterator[Candidate]:
    yield Candidate(facts.declaration_path.kind.name, "the kind of the folder")


def _app_versions(facts: DeclaredFacts, cursor: Cursor) -> Iterator[Candidate]:
    app = facts.catalog.platform.of_kind(App).get(cursor.text_at((*cursor.field[:-1], "name")) or "")
    for version in reversed(app.model.spec.versions) if app is not None else ():
        yield Candidate(version.version, "" if version.lifecycle == "Active" else version.lifecycle)


def _own_versions(facts: DeclaredFacts, cursor: Cursor) -> Iterator[Candidate]:
    own = cursor.text_at((*cursor.field[:-1], "version"))
    for token in cursor.tokens:
        if format_pattern(token.field) == "spec.versions[].version" and not token.is_key and token.text != own:
            yield Candidate(token.text)


def _app_folders(facts: DeclaredFacts, cursor: Cursor) -> Iterator[Candidate]:
    app = facts.catalog.platform.of_kind(App).get(cursor.text_at(("spec", "app", "name")) or "")
    chosen = cursor.text_at(("spec", "app", "version"))
    for version in app.model.spec.versions if app is not None else ():
        if version.version == chosen:
            for folder in version.folders:
                yield Candidate(folder.path, "a folder of the app")


def _own_storages(facts: DeclaredFacts, cursor: Cursor) -> Iterator[Candidate]:
    if cursor.text_at((*cursor.field[:-1], "tenant")) in (None, facts.tenant):
        for offer in facts.list_targets("GPUStorage", None):
            if offer.name != facts.declaration_path.name:
                yield Candidate(offer.name, offer.summary, offer.description)


_VALUES: dict[tuple[str, str], Callable[[DeclaredFacts, Cursor], Iterator[Candidate]]] = {
    ("", "kind"): _own_kind,
    ("", "metadata.name"): _own_name,
    ("GPUInstance", "spec.app.version"): _app_versions,
    ("GPUInstance", "spec.storages[].mountPath"): _app_folders,
    ("GPUStorage", "spec.prepare.source.storage.name"): _own_storages,
    ("App", "spec.versions[].replacedBy"): _own_versions,
}
