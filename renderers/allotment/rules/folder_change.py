"""What rules about change compare: one folder at the base and now."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.declaration import Declaration

D = TypeVar("D", bound=Declaration)


class FolderChange(NamedTuple):
    """A folder at the base and now (empty where it didn't or doesn't exist), what is on offer now, and the day that is
    today, whatever day's prices count."""

    offers: Catalog
    before: ScopeDeclarations
    after: ScopeDeclarations
    today: datetime.date

    def common_declarations(self, kind: type[D]) -> Iterator[tuple[DeclarationFile[D], DeclarationFile[D]]]:
        """Return the declarations of a kind that are there on both sides."""
        after = self.after.of_kind(kind)
        for name, old in self.before.of_kind(kind).items():
            if name in after:
                yield old, after[name]

    def removed_declarations(self, kind: type[D]) -> Iterator[DeclarationFile[D]]:
        """Return the declarations of a kind that are gone."""
        return (old for name, old in self.before.of_kind(kind).items() if self.after.is_absent(kind, name))

    @property
    def current_paths(self) -> tuple[str, ...]:
        """The files of the folder now. Who moves a declaration also causes the problems at its old path."""
        return self.after.paths()


def value_at(model: Any, field: str) -> Any:
    """Return the value of a dotted Python field, None where a part on the way is absent."""
    for part in field.split("."):
        model = getattr(model, part, None)
    return model
