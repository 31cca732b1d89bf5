"""`stock_edits` writes stocks, chooses their node pool, and adds the rows of a file all or not at all."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.declarations import split_cluster_name
from allotment.edits.input_rows import read_rows
from allotment.edits.new_declaration import InvalidField
from allotment.edits.stock_edits import (
    COLUMNS,
    NewStock,
    add_stock,
    add_stocks,
    remove_stocks,
)
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
WHOLE = NewStock(cluster="eu-1", name="whole-uni", gpu_spec="l4-whole", count="2")
HEAD = """\
# yaml-language-server: $schema=../../../schemas/Stock.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Stock
metadata:
  name: {name}
spec:
  gpuSpec: l4-whole
  nodePool: l4-whole
"""


def test_a_stock_is_a_file_in_the_only_pool_that_fits() -> None:
    change = add_stock(DECLARED, WHOLE)
    path = "clusters/eu-1/stocks/whole-uni.yaml"
    assert change.files == {path: (HEAD.format(name="whole-uni") + "  count: 2\n").encode()}
    assert (change.title, change.resources) == ("Add stock eu-1/whole-uni", ("Stock eu-1/whole-uni",))
    full = dataclasses.replace(WHOLE, count="3", warm="0", tenant="uni-lab", node_pool="l4-whole")
    text = HEAD.format(name="whole-uni") + "  count: 3\n  warm: 0\n  tenant: uni-lab\n"
    assert add_stock(DECLARED, full).files == {path: text.encode()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": "eu-2"}, "no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        ({"name": "a/b"}, "name 'a/b' is not allowed: write a-z"),
        ({"name": "l4-whole"}, "clusters/eu-1/stocks/l4-whole.yaml exists already: choose another name"),
        ({"gpu_spec": "l4-whol"}, "the platform has no GPUSpec named 'l4-whol'; did you mean 'l4-whole'?"),
        ({"tenant": "uni-la"}, "no tenant is named 'uni-la'; did you mean 'uni-lab'?"),
        ({"node_pool": "l4-whol"}, "eu-1 has no NodePool named 'l4-whol'; did you mean 'l4-whole'?"),
        (
            {"node_pool": "l4-ts4"},
            "node pool 'l4-ts4' can't have units of l4-whole: sharing none and timeSlicing with 4 replicas;"
            " pools of eu-1 that can: l4-whole",
        ),
        (
            {"cluster": "us-1"},
            "node pools of us-1 for units of l4-whole: none: `allot pool add us-1/NAME` declares a NodePool",
        ),
    ],
)
def test_a_wrong_name_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}"):
        add_stock(DECLARED, dataclasses.replace(WHOLE, **changes))


def test_two_pools_that_fit_need_a_choice(sample: Path) -> None:
    pool = sample / "clusters/eu-1/node-pools/l4-whole.yaml"
    text = pool.read_text().replace("name: l4-whole", "name: l4-more").replace("pool: l4-whole", "pool: l4-more")
    (pool.parent / "l4-more.yaml").write_text(text)
    declarations = open_declarations(FolderSource(sample))
    with pytest.raises(OperationRefused, match=r"^node pools of eu-1 .*: l4-more, l4-whole: name one of them$"):
        add_stock(declarations, WHOLE)
    assert add_stock(declarations, dataclasses.replace(WHOLE, node_pool="l4-more")).files


@pytest.mark.parametrize(("field", "value"), [("count", "x"), ("count", "-1"), ("warm", "1.5"), ("warm", "1000001")])
def test_an_invalid_number_names_its_field(field: str, value: str) -> None:
    with pytest.raises(InvalidField) as refused:
        add_stock(DECLARED, dataclasses.replace(WHOLE, **{field: value}))
    assert refused.value.field == f"spec.{field}"


CSV = """\
name,spec,count,tenant
eu-1/whole-a,l4-whole,1,uni-lab

eu-1/whole-b, l4-whole, 2,
"""
YAML = """\
# for the next term
- name: eu-1/whole-a
  spec: l4-whole
  count: 1
  tenant: uni-lab
- name: eu-1/whole-b
  spec: l4-whole
  count: 2
"""


@pytest.mark.parametrize(("source", "text"), [("s.csv", CSV), ("s.yaml", YAML), ("s.yml", f"---\n{YAML}")])
def test_the_rows_of_a_file_are_one_change(source: str, text: str) -> None:
    file = read_rows(source, text.encode(), COLUMNS)
    change = add_stocks(DECLARED, file)
    assert change.title == "Add 2 stocks"
    assert change.files == {
        "clusters/eu-1/stocks/whole-a.yaml": (HEAD.format(name="whole-a") + "  count: 1\n  tenant: uni-lab\n").encode(),
        "clusters/eu-1/stocks/whole-b.yaml": (HEAD.format(name="whole-b") + "  count: 2\n").encode(),
    }


def test_the_problems_of_all_rows_are_reported_with_their_lines() -> None:
    text = """\
name,spec,count,warm
eu-1/whole-a,l4-whole,x,
eu-1/whole-b,l4-whole,1,
eu-1/whole-b,l4-whole,1,

whole,l4-whole,1,
eu-1/whole-c,,1,
eu-1/whole-d,l4-whol,1,
"""
    message = """\
5 problems, so nothing was changed:
s.csv:2: count: 'x' is not a whole number: write digits only, such as 4
s.csv:4: 'eu-1/whole-b' is in line 3 already
s.csv:6: 'whole' is not in the format CLUSTER/NAME, such as eu-1/l4-whole
s.csv:7: no value for spec: write it
s.csv:8: the platform has no GPUSpec named 'l4-whol'; did you mean 'l4-whole'?"""
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}$"):
        add_stocks(DECLARED, read_rows("s.csv", text.encode(), COLUMNS))


def test_stocks_are_removed_together_or_not_at_all() -> None:
    change = remove_stocks(DECLARED, [("eu-1", "a100-1g"), ("eu-1", "a100-3g"), ("eu-1", "a100-1g")])
    assert change.files == {"clusters/eu-1/stocks/a100-1g.yaml": None, "clusters/eu-1/stocks/a100-3g.yaml": None}
    assert change.title == "Remove 2 stocks"
    with pytest.raises(OperationRefused, match=r"^eu-1 has no Stock named 'a100-2g'; did you mean "):
        remove_stocks(DECLARED, [("eu-1", "a100-1g"), ("eu-1", "a100-2g")])


@pytest.mark.parametrize("text", ["eu-1", "/l4", "eu-1/", "a/b/c", ""])
def test_a_stock_has_a_cluster_and_a_name(text: str) -> None:
    with pytest.raises(OperationRefused, match=r"is not in the format CLUSTER/NAME, such as eu-1/l4-whole$"):
        split_cluster_name(text)
