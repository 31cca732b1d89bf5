"""Hide the values that a tenant chooses from a check, to prove that the verdict does not depend on them."""

from __future__ import annotations

from typing import Any, NoReturn

FieldPath = tuple[str | int, ...]  # the keys and list indices from an object to one of its values


class HiddenValueRead(Exception):
    """Raised when a check reads a hidden value. `path` is the path of the value in its object."""

    def __init__(self, path: FieldPath) -> None:
        super().__init__(path)
        self.path = path


class HiddenValue:
    """Stands for any value that a slot of a pattern accepts. `slot` is the text of the slot, such as `<a-path>`.

    Every operation on it raises HiddenValueRead, even `isinstance`. Only `type` and `is` work, and they show only that
    the value is hidden. Therefore no check may prefer a value of an unknown type to a string or a number.
    """

    __slots__ = ("path", "slot")

    def __init__(self, slot: str, path: FieldPath) -> None:
        self.slot = slot
        self.path = path

    def _refuse(self, *_: Any) -> NoReturn:
        raise HiddenValueRead(self.path)

    __class__ = property(_refuse)  # `isinstance` reads it
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _refuse
    __str__ = __repr__ = __format__ = __int__ = __index__ = __add__ = __radd__ = _refuse
    __getattr__ = _refuse
