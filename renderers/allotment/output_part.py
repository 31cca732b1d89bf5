"""The base of the values that commands print as JSON."""

from __future__ import annotations

import msgspec


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an output. JSON has its fields in camelCase, or under the `name` of the field. Fields are added alone."""
