"""Copies of an instance are spread as it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, PROJECT, Allot, edit

from allotment.manifests.yaml_text import load

PREVIEW = "tenants/film-house/instances/preview.yaml"
RENDERED = "eu-1/tenants/film-house/compute/preview.rendered.yaml"


def constraints(data: bytes) -> list[dict[str, Any]]:
    spread_constraints: list[dict[str, Any]] = load(data)[0]["spec"]["template"]["spec"].get(
        "topologySpreadConstraints", []
    )
    return spread_constraints


def test_copies_are_spread_over_zones_and_nodes(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, PREVIEW, "    - Nodes\n", "    - Nodes\n    - Zones\n    - Nodes\n")
    assert allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY).code == 1  # three entries
    edit(sample, PREVIEW, "    - Zones\n    - Nodes\n", "    - Zones\n")
    assert allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY).code == 0
    spread_constraints = constraints((tmp_path / "out" / RENDERED).read_bytes())
    assert [constraint["topologyKey"] for constraint in spread_constraints] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    for constraint in spread_constraints:
        assert constraint["whenUnsatisfiable"] == "DoNotSchedule"
        assert constraint["labelSelector"] == {"matchLabels": {"allotment.dev/instance": "preview"}}


def test_a_plan_says_what_copies_may_be_spread_over(sample: Path, allot: Allot) -> None:
    edit(
        sample,
        "platform/plans/team.yaml",
        "    spread:\n      - Nodes\n      - Zones\n",
        "    spread:\n      - Zones\n",
    )
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 1
    line = (
        f"{PREVIEW}:16:7: spec.spread[0]: plan team allows a spread only over Zones, not over Nodes: "
        "remove it, or ask for another plan [limit]"
    )
    assert line in result.lines


def test_an_instance_without_a_declared_spread_has_no_spread_constraints() -> None:
    golden = PROJECT / "tests/manifests/golden/eu-1/tenants"
    files = [path for path in golden.glob("*/compute/*.rendered.yaml") if "--" not in path.name]
    assert len(files) > 5
    assert {path.name for path in files if constraints(path.read_bytes())} == {"preview.rendered.yaml"}


def test_each_number_of_restarts_is_another_pod_template(sample: Path, allot: Allot, tmp_path: Path) -> None:
    assert "annotations" not in _read_template(sample, allot, tmp_path / "none")["metadata"]
    edit(sample, PREVIEW, "spec:\n", "spec:\n  restarts: 2\n")
    template = _read_template(sample, allot, tmp_path / "two")
    assert template["metadata"]["annotations"] == {"allotment.dev/restarts": "2"}


def _read_template(sample: Path, allot: Allot, out: Path) -> dict[str, Any]:
    assert allot("render", "--repo", sample, "--out", out, "--as-of", DAY).code == 0
    template: dict[str, Any] = load((out / RENDERED).read_bytes())[0]["spec"]["template"]
    return template
