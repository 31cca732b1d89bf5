"""Check the keys and values of a mapping for the isolation gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.manifests import names
from allotment.manifests.yaml_text import Object
from allotment.problems import escape_unprintable

_FIELDS = frozenset(("apiVersion", "kind", "metadata", "spec", "data", "immutable"))
_FIELDS_BY_KIND = {
    "RoleBinding": frozenset(("apiVersion", "kind", "metadata", "roleRef", "subjects")),
    "ServiceAccount": frozenset(("apiVersion", "kind", "metadata", "imagePullSecrets")),
}


def check_allowed_keys(where: str, value: Any, allowed: frozenset[str]) -> Iterator[str]:
    """Yield a violation for each key that a mapping may not have."""
    for key in value if isinstance(value, dict) else ("(no mapping)",):
        if key not in allowed:
            yield f"{where}.{escape_unprintable(str(key))} is not allowed"


def check_equal(where: str, value: Any, expected_value: Any) -> Iterator[str]:
    """Yield a violation if a value differs from the expected value."""
    if value != expected_value:
        yield f"{where} is {escape_unprintable(str(value))}, must be {escape_unprintable(str(expected_value))}"


def check_identity(manifest: Object, kinds: dict[str, str]) -> Iterator[str]:
    """Yield violations of an object's top-level keys, kind and API version.

    `kinds` has the API version of each allowed kind.
    """
    kind = manifest.get("kind")
    yield from check_allowed_keys("", manifest, _FIELDS_BY_KIND.get(str(kind), _FIELDS))
    if kind not in kinds:
        yield f"kind {escape_unprintable(str(kind))} is not allowed"
    else:
        yield from check_equal(f"{kind}.apiVersion", manifest.get("apiVersion"), kinds[kind])


def is_released(annotations: Any) -> bool:
    """Return whether an object's protection is lifted, which is the last step before its deletion."""
    return bool(annotations.get(names.PROTECTED) == "false")
