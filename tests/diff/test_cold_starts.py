"""A start that takes no placeholder's place on a pool that Karpenter grows waits for a node; any other doesn't."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, Result, checked, edit
from tests.support.cluster_report import report
from tests.support.published import Place, git
from tests.support.pulled import Pull
from tests.support.signing_keys import new_key

from allotment.observed.status import ClusterStatus, ColdStart

KITE = "tenants/studio-kite"
NEW = """\
# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: {name}
spec:
  cluster: us-1
  gpuSpec: {spec}
  app:
    name: jupyter
    version: "4.5.0"
"""
UNKNOWN = "the duration is unknown here"


@pytest.fixture
def pull(sample: Path, allot: Allot) -> Pull:
    """Return the sample with a branch that changes nothing yet."""
    return Pull(sample, allot)


def cold(result: Result) -> list[str]:
    return [line.strip() for line in result.out.splitlines() if "kept warm" in line]


def declare(root: Path, name: str, spec: str, tenant: str = "ml-orbit") -> None:
    (root / f"tenants/{tenant}/instances/{name}.yaml").write_text(NEW.format(name=name, spec=spec))


def test_where_nothing_is_kept_warm_a_node_comes_first(pull: Pull) -> None:
    declare(pull.root, "big", "h100-eight")
    result = pull.plan()
    assert cold(result) == [
        f"instance ml-orbit/big: no unit of h100-eight is kept warm in us-1: a new node must start first; {UNKNOWN}"
    ]
    assert cold(pull.plan("-o", "markdown")) == cold(result)
    assert pull.planned()["cold"] == [
        {
            "cluster": "us-1", "gpuSpec": "h100-eight", "instances": ["ml-orbit/big"], "units": 1, "warm": 0, "alone": True,
            "coldStart": None,
        }
    ]  # fmt: skip


def test_the_plan_announces_cold_starts_beyond_the_warm_units_only(pull: Pull) -> None:
    for number in (1, 2):
        declare(pull.root, f"one-{number}", "h100-one")
    assert cold(pull.plan()) == []
    declare(pull.root, "one-3", "h100-one")
    assert cold(pull.plan()) == [
        "instances ml-orbit/one-1, ml-orbit/one-2, ml-orbit/one-3: 2 units of h100-one are kept warm in us-1 and 3 start:"
        f" a new node must start first for the rest if no node has room; {UNKNOWN}"
    ]


def test_nodes_of_a_static_pool_are_there(pull: Pull) -> None:
    for number in range(9):
        pull.copy(f"{KITE}/instances/webui.yaml", f"{KITE}/instances/web-{number}.yaml")
    assert cold(pull.plan()) == []


def test_a_renamed_or_edited_instance_needs_no_new_node(pull: Pull) -> None:
    edit(pull.root, "clusters/us-1/stocks/h100-one.yaml", "warm: 2", "warm: 0")
    for name in ("one", "other"):
        declare(pull.root, name, "h100-one")
    pull.commit()
    git(pull.root, "branch", "-f", "main", "HEAD")
    pull.copy("tenants/ml-orbit/instances/one.yaml", "tenants/ml-orbit/instances/renamed.yaml")
    pull.remove("tenants/ml-orbit/instances/one.yaml")
    edit(
        pull.root, "tenants/ml-orbit/instances/other.yaml", "spec:\n", "spec:\n  env:\n    - name: A\n      value: b\n"
    )
    result = pull.plan()
    assert "renamed" in result.out
    assert cold(result) == []


def with_own_stock(pull: Pull) -> None:
    """Give a tenant five of the eight units for itself, and keep none of the others warm."""
    stock = (pull.root / "clusters/us-1/stocks/h100-one.yaml").read_text()
    own = stock.replace("name: h100-one", "name: own").replace("count: 8\n  warm: 2", "count: 5\n  tenant: ml-orbit")
    pull.write("clusters/us-1/stocks/own.yaml", own)
    edit(pull.root, "clusters/us-1/stocks/h100-one.yaml", "count: 8\n  warm: 2", "count: 3\n  warm: 0")
    pull.commit()
    git(pull.root, "branch", "-f", "main", "HEAD")


def test_a_tenants_own_stock_is_warm_for_it(pull: Pull) -> None:
    """It holds four units already: the fifth is the last of its own, and the sixth one of all tenants'."""
    with_own_stock(pull)
    declare(pull.root, "mine", "h100-one")
    assert cold(pull.plan()) == []
    declare(pull.root, "more", "h100-one")
    assert cold(pull.plan()) == [
        "instances ml-orbit/mine, ml-orbit/more: 1 unit of h100-one is kept warm in us-1 and 2 start: a new node must start first for"
        f" the rest if no node has room; {UNKNOWN}"
    ]


STARTS = tuple(
    ColdStart("h100-eight", "ml-orbit/old", f"2026-11-0{day}T10:00:00Z", seconds)
    for day, seconds in enumerate((350, 540, 371), start=1)
)
STATUS = ClusterStatus("us-1", "2026-11-21T10:00:00Z", cold_starts=STARTS)
TOOK = "; this took 6 min at the median of 3 starts, 9 min at most"


@pytest.fixture
def explain_cold_start(place: Place, allot: Allot, tmp_path: Path) -> Callable[[], str]:
    """Return what plans a start in a clone that has nothing but the branch main, and returns what is said of its node."""
    clone = tmp_path / "clone"

    def plan() -> str:
        if not clone.exists():
            git(tmp_path, "clone", "-q", "--branch", "main", "--single-branch", place.remote.as_uri(), str(clone))
            declare(clone, "big", "h100-eight")
        (line,) = cold(allot("plan", "--repo", clone, "--as-of", DAY))
        return line

    return plan


def test_how_long_it_took_is_told_where_a_status_was_seen(
    place: Place, allot: Allot, explain_cold_start: Callable[[], str], tmp_path: Path
) -> None:
    report(place, STATUS)
    assert explain_cold_start().endswith(UNKNOWN), "a plan fetches nothing"
    assert "6 min" in allot("stock", "list", "--repo", tmp_path / "clone").out
    assert explain_cold_start().endswith(TOOK)
    plan = checked("plan", allot("plan", "--repo", tmp_path / "clone", "--as-of", DAY, "-o", "json").out)
    assert plan["cold"][0]["coldStart"] == {"starts": 3, "medianSeconds": 371, "longestSeconds": 540}


def test_explain_cold_start_reads_a_status_from_git_fetch(
    place: Place, explain_cold_start: Callable[[], str], tmp_path: Path
) -> None:
    report(place, STATUS)
    assert explain_cold_start().endswith(UNKNOWN)
    git(tmp_path / "clone", "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
    assert explain_cold_start().endswith(TOOK)


def test_explain_cold_start_ignores_a_status_without_a_valid_signature(
    place: Place, explain_cold_start: Callable[[], str], tmp_path: Path
) -> None:
    public = new_key(tmp_path, "reporter").with_suffix(".pub").read_text().strip()
    edit(place.root, "clusters/us-1/cluster.yaml", "spec:\n", f"spec:\n  reporter:\n    publicKey: {public}\n")
    place.merge()
    report(place, STATUS)
    assert explain_cold_start().endswith(UNKNOWN)
    git(tmp_path / "clone", "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
    assert explain_cold_start().endswith(UNKNOWN)


def test_the_removal_of_a_tenants_own_stock_causes_no_cold_start(pull: Pull) -> None:
    """Its own stock goes: what it runs lies on the shared ones from now on, and stays where it is."""
    with_own_stock(pull)
    pull.remove("clusters/us-1/stocks/own.yaml")
    edit(pull.root, "clusters/us-1/stocks/h100-one.yaml", "count: 3", "count: 8")
    result = pull.plan()
    assert (result.code, cold(result)) == (0, [])
