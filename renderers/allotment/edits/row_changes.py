"""Builds a single change from the rows of a file: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.input_rows import InputFile, InputRow, RowProblem, refuse_rows
from allotment.edits.new_declaration import InvalidField
from allotment.problems import OperationRefused, pluralize, quote_value

_NAME = "name"


def build_row_changes(
    file: InputFile, build: Callable[[InputRow], ChangeSet], columns_by_field: Mapping[str, str], title: tuple[str, str]
) -> ChangeSet:
    """Return the change of all rows of a file. `title` has its verb and noun, such as Add and stock.

    Raises OperationRefused with the problems of all rows, each with its line.
    """
    changes: list[ChangeSet] = []
    problems = list(file.problems)
    lines_by_name: dict[str, int] = {}
    for row in file.rows:
        name = row.values[_NAME]
        try:
            change = build(row)
            if name in lines_by_name:
                raise OperationRefused(f"{quote_value(name)} is in line {lines_by_name[name]} already")
            lines_by_name[name] = row.line
            changes.append(change)
        except InvalidField as error:
            problems.append(RowProblem(row.line, error.name_input(columns_by_field)))
        except OperationRefused as error:
            problems += [RowProblem(row.line, line) for line in str(error).splitlines()]
    if problems:
        raise refuse_rows(file.source, problems)
    verb, noun = title
    return merge_change_sets(changes, f"{verb} {pluralize(len(changes), noun)}")
