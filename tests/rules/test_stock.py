"""Stock across a change: whose file is to blame when more is held than there is. The sample is prepared, committed, changed,
and compared with that commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, copy, edit
from tests.support.folder_commit import commit
from tests.support.published import git

Change = Callable[[Path], None]

QUARTER, WHOLE, KITES = (f"clusters/eu-1/stocks/{name}.yaml" for name in ("l4-quarter", "l4-whole", "l4-whole-kite"))
SPOT = "clusters/us-1/stocks/l40s-spot.yaml"
ADA, KITE, UNI = (f"tenants/{name}/instances" for name in ("solo-ada", "studio-kite", "uni-lab"))
MOUNTS = "  storages:\n    - name: models\n      mountPath: /workspace\n"
FIVES = "uni-lab/group-a 5, uni-lab/group-b 5, uni-lab/group-c 5"
ONES = "solo-ada/webui 1, studio-kite/webui 1"
FEWER = "write fewer replicas, "
STOP = "stop an instance, or choose another GPUSpec or cluster [stock]"
BACK = "restore the stock, or stop instances [stock]"
RAISE = "raise its count, or stop instances [stock]"


def swap(path: str, old: str, new: str) -> Change:
    return lambda root: edit(root, path, old, new)


def gone(path: str) -> Change:
    return lambda root: (root / path).unlink()


def add(path: str, gpu_spec: str = "l4-quarter", replicas: int = 1) -> Change:
    """Return what declares a new instance in eu-1 that mounts nothing."""

    def change(root: Path) -> None:
        copy(root, f"{ADA}/webui.yaml", path)
        edit(root, path, MOUNTS, "")
        edit(root, path, "gpuSpec: l4-quarter", f"gpuSpec: {gpu_spec}\n  replicas: {replicas}")

    return change


def stocked(path: str, count: int) -> Change:
    """Return what changes a stock's count; placeholders don't matter here."""

    def change(root: Path) -> None:
        lines = (root / path).read_text().splitlines()
        retained_lines = [f"  count: {count}" if "count:" in line else line for line in lines if "warm:" not in line]
        (root / path).write_text("\n".join(retained_lines) + "\n")

    return change


def over(gpu_spec: str, held: int, excess: int, stock: str, holders: str, cluster: str = "eu-1", then: str = "") -> str:
    words = (
        f"{held} units of {gpu_spec} would run in {cluster}, {excess} more than its stock ({stock}); held by {holders}"
    )
    return f"{words}: {STOP.removesuffix(' [stock]')}{then} [stock]"


def fewer(line: str) -> str:
    """Return an error of an instance that has several replicas."""
    return line.replace(STOP, FEWER + STOP)


def lowered(gpu_spec: str, held: int, excess: int, stock: str, holders: str, cluster: str = "eu-1") -> str:
    return f"{held} units of {gpu_spec} are held in {cluster}, {excess} more than its stock ({stock}); held by {holders}: {BACK}"


def beneath(units: int, excess: int, stock: str, holders: str) -> str:
    return f"{units} units of l4-quarter are held in eu-1, {excess} more than its stock ({stock}); held by {holders}: {RAISE}"


FULL = stocked(QUARTER, 17)
OVERSOLD = stocked(QUARTER, 15)
WHOLE_FULL = stocked(WHOLE, 1)  # studio-kite holds 3, 2 of them on its own stock

CASES: dict[str, tuple[list[Change], list[Change], list[str]]] = {
    "a new instance": (
        [FULL],
        [add(f"{ADA}/again.yaml")],
        [
            f"{ADA}/again.yaml:8:12: spec.gpuSpec: "
            + over("l4-quarter", 18, 1, "17 shared", f"{FIVES}, solo-ada/again 1, solo-ada/webui 1 and 1 more")
        ],
    ),
    "replicas that grew": (
        [FULL],
        [swap(f"{UNI}/group-a.yaml", "replicas: 5", "replicas: 6")],
        [
            f"{UNI}/group-a.yaml:13:13: spec.replicas: "
            + fewer(
                over(
                    "l4-quarter",
                    18,
                    1,
                    "17 shared",
                    f"uni-lab/group-a 6, uni-lab/group-b 5, uni-lab/group-c 5, {ONES}",
                )
            )
        ],
    ),
    "replicas that grew count by what they grew": (
        [stocked(QUARTER, 18)],
        [add(f"{KITE}/four.yaml", replicas=4), swap(f"{UNI}/group-c.yaml", "replicas: 5", "replicas: 6")],
        [
            f"{KITE}/four.yaml:8:12: spec.gpuSpec: "
            + fewer(
                over(
                    "l4-quarter",
                    22,
                    4,
                    "18 shared",
                    "uni-lab/group-c 6, uni-lab/group-a 5, uni-lab/group-b 5, studio-kite/four 4, solo-ada/webui 1 and 1 more",
                )
            )
        ],
    ),
    "replicas that fit, and the one after them": (
        [stocked(QUARTER, 18)],
        [add(f"{KITE}/extra.yaml"), swap(f"{UNI}/group-c.yaml", "replicas: 5", "replicas: 6")],
        [
            f"{UNI}/group-c.yaml:13:13: spec.replicas: "
            + fewer(
                over(
                    "l4-quarter",
                    19,
                    1,
                    "18 shared",
                    "uni-lab/group-c 6, uni-lab/group-a 5, uni-lab/group-b 5, solo-ada/webui 1, studio-kite/extra 1 and 1 more",
                )
            )
        ],
    ),
    "another spec": (
        [WHOLE_FULL],
        [swap(f"{KITE}/webui.yaml", "gpuSpec: l4-quarter", "gpuSpec: l4-whole")],
        [
            f"{KITE}/webui.yaml:11:12: spec.gpuSpec: "
            + over(
                "l4-whole",
                4,
                1,
                "1 shared, 2 held for studio-kite",
                "studio-kite/webui-next 2, studio-kite/comfy 1, studio-kite/webui 1",
                then="; if it is merged, studio-kite/webui keeps running on l4-quarter until a unit is free",
            )
        ],
    ),
    "a tenant that runs again": (
        [stocked(QUARTER, 10), swap("tenants/uni-lab/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n")],
        [swap("tenants/uni-lab/tenant.yaml", "  lifecycle: Suspended\n", "")],
        [
            f"{UNI}/group-b.yaml:9:12: spec.gpuSpec: "
            + fewer(over("l4-quarter", 17, 7, "10 shared", f"{FIVES}, {ONES}"))
        ],
    ),
    "beyond another tenant's own stock": (
        [WHOLE_FULL],
        [add(f"{ADA}/again.yaml", "l4-whole")],
        [
            f"{ADA}/again.yaml:8:12: spec.gpuSpec: "
            + over(
                "l4-whole",
                4,
                1,
                "1 shared, 2 held for studio-kite",
                "studio-kite/webui-next 2, solo-ada/again 1, studio-kite/comfy 1",
            )
        ],
    ),
    "within one's own stock": (
        [WHOLE_FULL, gone(f"{KITE}/webui-next.yaml"), add(f"{ADA}/again.yaml", "l4-whole")],
        [add(f"{KITE}/extra.yaml", "l4-whole")],
        [],
    ),
    "the first beyond one's own stock": (
        [WHOLE_FULL, gone(f"{KITE}/webui-next.yaml"), add(f"{UNI}/again.yaml", "l4-whole")],
        [add(f"{KITE}/one.yaml", "l4-whole"), add(f"{KITE}/two.yaml", "l4-whole")],
        [
            f"{KITE}/two.yaml:8:12: spec.gpuSpec: "
            + over(
                "l4-whole",
                4,
                1,
                "1 shared, 2 held for studio-kite",
                "studio-kite/comfy 1, studio-kite/one 1, studio-kite/two 1, uni-lab/again 1",
            )
        ],
    ),
    "a stock that was lowered": (
        [],
        [OVERSOLD],
        [f"{QUARTER}:9:10: spec.count: " + lowered("l4-quarter", 17, 2, "15 shared", f"{FIVES}, {ONES}")],
    ),
    "a stock that was lowered, and a newcomer": (
        [],
        [OVERSOLD, add(f"{ADA}/again.yaml")],
        [
            f"{QUARTER}:9:10: spec.count: "
            + lowered("l4-quarter", 18, 3, "15 shared", f"{FIVES}, solo-ada/again 1, solo-ada/webui 1 and 1 more")
        ],
    ),
    "a newcomer to a stock that was lowered to what was held": (
        [],
        [FULL, add(f"{ADA}/again.yaml")],
        [
            f"{ADA}/again.yaml:8:12: spec.gpuSpec: "
            + over("l4-quarter", 18, 1, "17 shared", f"{FIVES}, solo-ada/again 1, solo-ada/webui 1 and 1 more")
        ],
    ),
    "a stock that was lowered by what was given back": ([], [OVERSOLD, gone(f"{UNI}/group-a.yaml")], []),
    "a stock that was lowered once more": (
        [OVERSOLD],
        [stocked(QUARTER, 14)],
        [f"{QUARTER}:9:10: spec.count: " + lowered("l4-quarter", 17, 3, "14 shared", f"{FIVES}, {ONES}")],
    ),
    "a stock of one's own that was lowered": (
        [WHOLE_FULL],
        [stocked(KITES, 1)],
        [
            f"{KITES}:10:10: spec.count: "
            + lowered(
                "l4-whole", 3, 1, "1 shared, 1 held for studio-kite", "studio-kite/webui-next 2, studio-kite/comfy 1"
            )
        ],
    ),
    "a stock that was given to a tenant": (
        [],
        [swap(WHOLE, "count: 5\n", "count: 5\n  tenant: uni-lab\n")],
        [
            f"{WHOLE}:10:11: spec.tenant: "
            + lowered(
                "l4-whole",
                3,
                1,
                "0 shared, 2 held for studio-kite, 5 held for uni-lab",
                "studio-kite/webui-next 2, studio-kite/comfy 1",
            )
        ],
    ),
    "a stock that was opened to all": ([WHOLE_FULL], [swap(KITES, "  tenant: studio-kite\n", "")], []),
    "a stock that is of another spec now": (
        [],
        [swap("clusters/eu-1/stocks/a100-3g.yaml", "gpuSpec: a100-3g", "gpuSpec: a100-1g")],
        [
            "clusters/eu-1/stocks/a100-3g.yaml:7:12: spec.gpuSpec: "
            + lowered("a100-3g", 2, 2, "0 shared", "film-house/train-fox 1, film-house/train-owl 1")
        ],
    ),
    "a stock that is gone": (
        [],
        [gone(SPOT)],
        [f"{SPOT}:1:1: (file): " + lowered("l40s-spot", 6, 6, "0 shared", "acme-robotics/simulate 6", "us-1")],
    ),
    "a stock that was divided": (
        [FULL],
        [
            lambda root: copy(root, QUARTER, "clusters/eu-1/stocks/a-second.yaml"),
            stocked("clusters/eu-1/stocks/a-second.yaml", 10),
            stocked(QUARTER, 7),
        ],
        [],
    ),
    "several clusters and specs": (
        [FULL, WHOLE_FULL],
        [add(f"{ADA}/again.yaml"), add(f"{KITE}/extra.yaml", "l4-whole"), stocked(SPOT, 5)],
        [
            f"{SPOT}:9:10: spec.count: " + lowered("l40s-spot", 6, 1, "5 shared", "acme-robotics/simulate 6", "us-1"),
            f"{ADA}/again.yaml:8:12: spec.gpuSpec: "
            + over("l4-quarter", 18, 1, "17 shared", f"{FIVES}, solo-ada/again 1, solo-ada/webui 1 and 1 more"),
            f"{KITE}/extra.yaml:8:12: spec.gpuSpec: "
            + over(
                "l4-whole",
                4,
                1,
                "1 shared, 2 held for studio-kite",
                "studio-kite/webui-next 2, studio-kite/comfy 1, studio-kite/extra 1",
            ),
        ],
    ),
    "a unit of another size": ([FULL], [swap("platform/specs/l4-quarter.yaml", "cpu: 3", "cpu: 2")], []),
    "a newcomer to what the base had oversold": (
        [OVERSOLD],
        [add(f"{ADA}/again.yaml")],
        [
            f"{ADA}/again.yaml:8:12: spec.gpuSpec: "
            + over("l4-quarter", 18, 3, "15 shared", f"{FIVES}, solo-ada/again 1, solo-ada/webui 1 and 1 more")
        ],
    ),
    "what the base had oversold": (
        [OVERSOLD],
        [swap(f"{UNI}/group-c.yaml", "spec:\n", "spec:\n  description: Ours.\n")],
        [f"{QUARTER}:9:10: spec.count: warning: " + beneath(17, 2, "15 shared", f"{FIVES}, {ONES}")],
    ),
    "a part of what the base had oversold is given back": (
        [OVERSOLD],
        [gone(f"{ADA}/webui.yaml")],
        [f"{QUARTER}:9:10: spec.count: warning: " + beneath(16, 1, "15 shared", f"{FIVES}, studio-kite/webui 1")],
    ),
    "a part of what the base had oversold is stocked": (
        [OVERSOLD],
        [stocked(QUARTER, 16)],
        [f"{QUARTER}:9:10: spec.count: warning: " + beneath(17, 1, "16 shared", f"{FIVES}, {ONES}")],
    ),
}


@pytest.mark.parametrize(("before", "changes", "lines"), CASES.values(), ids=CASES)
def test_the_blame_lies_where_something_changed(
    before: list[Change], changes: list[Change], lines: list[str], sample: Path, allot: Allot
) -> None:
    for change in before:
        change(sample)
    commit(sample)
    for change in changes:
        change(sample)
    result = allot("validate", "--repo", sample, "--base", "HEAD", "--as-of", DAY)
    assert [line for line in result.lines if line.endswith("[stock]")] == lines


def stock_lines(allot: Allot, root: Path, *paths: str) -> list[str]:
    """Return what `allot validate` says of stocks, without a base."""
    result = allot("validate", "--repo", root, *(root / path for path in paths), "--as-of", DAY)
    return [line for line in result.lines if line.endswith("[stock]")]


HELD = f"{FIVES}, solo-ada/again 1, solo-ada/webui 1 and 1 more"
AT_STOCK = f"{QUARTER}:9:10: spec.count: "


def test_without_a_base_and_a_repository_the_stock_is_named(sample: Path, allot: Allot) -> None:
    OVERSOLD(sample)
    add(f"{ADA}/again.yaml")(sample)
    lines = [AT_STOCK + beneath(18, 3, "15 shared", HELD)]
    assert stock_lines(allot, sample) == lines
    for paths in (["clusters"], ["tenants"], [QUARTER], [QUARTER, f"{ADA}/again.yaml"], [KITE], ["."]):
        assert stock_lines(allot, sample, *paths) == lines, paths
    assert stock_lines(allot, sample, "tenants/film-house") == [], "it holds none"


@pytest.mark.parametrize("state", ["untracked", "staged"])
@pytest.mark.parametrize("count", [17, 15])
def test_without_a_base_an_instance_that_the_last_commit_lacks_is_named(
    count: int, state: str, sample: Path, allot: Allot
) -> None:
    stocked(QUARTER, count)(sample)
    commit(sample)
    add(f"{ADA}/again.yaml")(sample)
    if state == "staged":
        git(sample, "add", "--all")
    excess = over("l4-quarter", 18, 18 - count, f"{count} shared", HELD)
    lines = [f"{ADA}/again.yaml:8:12: spec.gpuSpec: {excess}"]
    for paths in ([], ["."], ["tenants"], ["tenants/solo-ada"], [ADA], [f"{ADA}/again.yaml"]):
        assert stock_lines(allot, sample, *paths) == lines, paths
    at_stock = [AT_STOCK + beneath(18, 18 - count, f"{count} shared", HELD)]
    assert stock_lines(allot, sample, KITE) == at_stock, "no instance is new there"


def test_without_a_base_a_committed_excess_is_at_the_stock(sample: Path, allot: Allot) -> None:
    FULL(sample)
    add(f"{ADA}/again.yaml")(sample)
    commit(sample)
    assert stock_lines(allot, sample, ADA) == [AT_STOCK + beneath(18, 1, "17 shared", HELD)]


def test_without_a_base_an_excess_that_the_branch_of_origin_lacks_is_at_the_instance(
    sample: Path, allot: Allot
) -> None:
    """The branch is committed, and origin has moved on since."""
    FULL(sample)
    commit(sample)
    merged = git(sample, "rev-parse", "HEAD")
    add(f"{ADA}/again.yaml")(sample)
    commit(sample)
    upstream = git(sample, "commit-tree", f"{merged}^{{tree}}", "-p", merged, "-m", "Another change")
    git(sample, "update-ref", "refs/remotes/origin/main", upstream)
    excess = over("l4-quarter", 18, 1, "17 shared", HELD)
    assert stock_lines(allot, sample, ADA) == [f"{ADA}/again.yaml:8:12: spec.gpuSpec: {excess}"]


def test_without_a_base_a_stock_that_differs_from_the_last_commit_is_named(sample: Path, allot: Allot) -> None:
    commit(sample)
    FULL(sample)
    add(f"{ADA}/again.yaml")(sample)
    assert stock_lines(allot, sample, ADA) == [AT_STOCK + beneath(18, 1, "17 shared", HELD)]


def test_without_a_base_replicas_that_exceed_the_stock_are_to_be_fewer(sample: Path, allot: Allot) -> None:
    FULL(sample)
    commit(sample)
    swap(f"{UNI}/group-b.yaml", "replicas: 5", "replicas: 6")(sample)
    lines = stock_lines(allot, sample)
    assert [line.split(":")[0] for line in lines] == [f"{UNI}/group-b.yaml"]
    assert lines[0].endswith(f": {FEWER}{STOP}")
