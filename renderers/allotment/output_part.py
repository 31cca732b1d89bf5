"""The base of the values in the JSON output of commands."""

from __future__ import annotations

import msgspec


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an output. In JSON its fields are in camelCase, or have the `name` of the field. Parts only gain
    fields."""
