"""The change of a folder between the base and now. The rules in `CHANGE_RULES` check this change."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.declaration import Declaration

D = TypeVar("D", bound=Declaration)


class FolderChange(NamedTuple):
    """A folder at the base (`before`) and now (`after`).

    If the folder doesn't exist at the base, `before` is empty. If the folder doesn't exist now, `after` is empty.
    `catalog` is the current catalog. `today` is the current date, which can differ from the date of the prices.
    """

    catalog: Catalog
    before: ScopeDeclarations
    after: ScopeDeclarations
    today: datetime.date

    def common_declarations(self, kind: type[D]) -> Iterator[tuple[DeclarationFile[D], DeclarationFile[D]]]:
        """Yield the declarations of a kind that exist at the base and now, as pairs (before, after)."""
        after = self.after.of_kind(kind)
        for name, old in self.before.of_kind(kind).items():
            if name in after:
                yield old, after[name]

    def removed_declarations(self, kind: type[D]) -> Iterator[DeclarationFile[D]]:
        """Return the declarations of a kind that no longer exist."""
        return (old for name, old in self.before.of_kind(kind).items() if self.after.is_absent(kind, name))

    @property
    def current_paths(self) -> tuple[str, ...]:
        """The paths of the files that the folder has now.

        A problem with a removed file lists these paths as related files, because the file may have moved to one of
        these paths.
        """
        return self.after.paths()


def value_at(model: Any, field: str) -> Any:
    """Return the value of a Python field such as `prepare.source`; None if a part of the field is absent."""
    for part in field.split("."):
        model = getattr(model, part, None)
    return model
