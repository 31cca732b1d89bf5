"""The base of the values in the JSON output of commands."""

from __future__ import annotations

import msgspec


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A value in the JSON output of a command.

    The JSON name of a field is the `name` of its `msgspec.field`, or else its Python name in camelCase. A new version
    of Allotment may add fields to a part, but never removes or renames fields.
    """
