"""What Argo CD may not leave out is all that is rendered."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Allot
from tests.support.ways_of_sharing import declare_all

from allotment.diagnosis.argocd import RENDERED_KINDS
from allotment.manifests.yaml_text import load


def test_all_that_is_rendered_is_looked_for(sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare_all(sample)
    out = tmp_path / "rendered"
    assert allot("render", "--repo", sample, "--out", out).code == 0
    files = [path for path in out.rglob("*.rendered.yaml") if path.is_file()]
    rendered_kinds = {
        (manifest["apiVersion"].rpartition("/")[0], manifest["kind"])
        for path in files
        for manifest in load(path.read_bytes())
    }
    assert ("resource.k8s.io", "DeviceClass") in rendered_kinds
    assert rendered_kinds <= set(RENDERED_KINDS)
