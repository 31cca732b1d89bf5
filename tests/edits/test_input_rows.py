"""`input_rows` reads CSV and YAML alike, and reports problems with their lines."""

from __future__ import annotations

import re

import pytest

from allotment.edits.input_rows import MAX_BYTES, MAX_ROWS, Columns, InputFile, InputRow, RowProblem, read_rows
from allotment.problems import OperationRefused


def read(source: str, text: str) -> InputFile:
    return read_rows(source, text.encode(), Columns(("name", "count", "env"), ("name",), ("env",)))


def test_an_empty_cell_has_no_value() -> None:
    rows = (InputRow(2, {"name": "a"}, {}), InputRow(3, {"name": "b", "count": "2"}, {}))
    assert read("x.csv", "name,count\na,\nb,2\n").rows == rows
    assert read("x.csv", "\ufeffname,count\r\na,\r\nb,2\r\n").rows == rows
    assert read("x.yaml", "- name: a\n- name: b\n  count: 2\n").rows == (
        rows[0]._replace(line=1),
        InputRow(2, rows[1][1], {}),
    )


def test_a_quoted_value_can_have_commas_and_lines() -> None:
    assert read("x.csv", 'name,count\n"a, b",1\n').rows == (InputRow(2, {"name": "a, b", "count": "1"}, {}),)


def test_unknown_columns_and_missing_values_are_problems() -> None:
    unknown = "there is no column 'cout'; did you mean 'count'?"
    missing = "no value for name: write it"
    file = read("x.yaml", "- {name: a, cout: 1}\n- {cout: 2}\n")
    assert file.rows == ()
    assert file.problems == (RowProblem(1, unknown), RowProblem(2, unknown), RowProblem(2, missing))
    assert read("x.csv", "name,count\n,2\n").problems == (RowProblem(2, missing),)
    with pytest.raises(OperationRefused, match=f"\nx.csv:1: {re.escape(unknown)}$"):
        read("x.csv", "name,cout\na,\n")


def test_semicolons_between_columns_are_refused() -> None:
    with pytest.raises(
        OperationRefused, match=r"\nx\.csv:1: the columns are separated by semicolons: separate them by commas$"
    ):
        read("x.csv", "name;count\na;1\n")


def test_a_list_has_several_values() -> None:
    rows = (InputRow(2, {"name": "a"}, {"env": ("A=1", "B=2")}), InputRow(3, {"name": "b"}, {}))
    assert read("x.CSV", "name,env\na,A=1; B=2\nb,\n").rows == rows
    documented = (rows[0], rows[1]._replace(line=4))
    assert read("x.YML", "---\n- name: a\n  env: [A=1, B=2]\n- {name: b, env: []}\n").rows == documented
    assert read("x.yaml", "- name: a\n  env: A=1\n").rows == (InputRow(1, {"name": "a"}, {"env": ("A=1",)}),)


@pytest.mark.parametrize(
    ("source", "data", "message"),
    [
        ("x.csv", b"", "x.csv has 0 rows: write 1 to 5,000"),
        ("x.csv", b"name\n", "x.csv has 0 rows: write 1 to 5,000"),
        ("x.csv", b"name\n" + b"a\n" * (MAX_ROWS + 1), "x.csv has 5,001 rows: write 1 to 5,000"),
        ("x.csv", b"\xff", "x.csv is not text in UTF-8: convert it first"),
        ("x.csv", b"name,name\na,b\n", "1 problem, so nothing was changed:\nx.csv:1: two columns have the same name"),
        ("x.csv", b"name\na,b\n", "1 problem, so nothing was changed:\nx.csv:2: 2 values for 1 column: quote a value"),
        ("x.csv", b"name\n\n\na,b\n", "1 problem, so nothing was changed:\nx.csv:4: 2 values for 1 column: quote"),
        ("x.csv", b"name" + b" " * MAX_BYTES, "x.csv has more than 4,000,000 bytes: split it"),
        ("x.yaml", b"- name: a\n" * 30_000, "x.yaml has more than 262,144 bytes of YAML: split it, or write CSV"),
        ("x.txt", b"name\na\n", "x.txt has no name that ends in .csv, .yaml or .yml: rename it"),
        ("x.yaml", b"- name: a\nname: b\n", "x.yaml"),
        ("x.yaml", b"- name: a\n  name: b\n", "1 problem, so nothing was changed:\nx.yaml:2: "),
        ("x.csv", b'name\n"a', "1 problem, so nothing was changed:\nx.csv:2: this is not CSV: "),
        ("x.yaml", b"name: a\n", "x.yaml is not a list of mappings: begin each row with `- name:`"),
        ("x.yaml", b"- a\n", "x.yaml is not a list of mappings: begin each row with `- name:`"),
        ("x.yaml", b"- name: a\n- name: [b]\n", "1 problem, so nothing was changed:\nx.yaml:2: 'name' is not a single"),
        ("x.yaml", b"- name: 'a\n", "1 problem, so nothing was changed:\nx.yaml:"),
    ],
)
def test_a_file_that_cant_be_read_is_refused(source: str, data: bytes, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}"):
        read_rows(source, data, Columns(("name",), ("name",)))


def test_a_short_row_is_refused() -> None:
    with pytest.raises(
        OperationRefused, match=r"\nx.csv:2: 1 value for 2 columns: write a comma for each empty value$"
    ):
        read("x.csv", "name,count\na\n")
