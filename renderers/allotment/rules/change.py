"""What rules about change compare: one folder at the base and now."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.declaration import Declaration

D = TypeVar("D", bound=Declaration)


class Change(NamedTuple):
    """A folder at the base and now (empty where it didn't or doesn't exist), what is on offer now, and the day that is
    today, whatever day's prices count."""

    offers: Offers
    before: Folder
    after: Folder
    today: datetime.date

    def kept(self, kind: type[D]) -> Iterator[tuple[Declared[D], Declared[D]]]:
        """Return the declarations of a kind that are there on both sides."""
        after = self.after.of(kind)
        for name, old in self.before.of(kind).items():
            if name in after:
                yield old, after[name]

    def removed(self, kind: type[D]) -> Iterator[Declared[D]]:
        """Return the declarations of a kind that are gone."""
        return (old for name, old in self.before.of(kind).items() if self.after.lacks(kind, name))

    @property
    def beside(self) -> tuple[str, ...]:
        """The files of the folder now. Who moves a declaration also causes the problems at its old path."""
        return self.after.paths()


def value_at(model: Any, field: str) -> Any:
    """Return the value of a dotted Python field, None where a part on the way is absent."""
    for part in field.split("."):
        model = getattr(model, part, None)
    return model
