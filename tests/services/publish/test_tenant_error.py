"""A bug that one tenant runs into retains that tenant: all others are checked and published, and the trace is reported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot, edit
from tests.support.published import Place
from tests.support.tenant_errors import BREAKS, _check

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.manifests.cluster import control

OTHER = "tenants/uni-lab/instances/group-a.yaml"


@pytest.mark.parametrize("place_of_bug", BREAKS)
def test_a_bug_retains_its_tenant_and_the_others_are_published(
    published: Place, monkeypatch: pytest.MonkeyPatch, place_of_bug: str
) -> None:
    before = published.tree("eu-1")
    edit(published.root, OTHER, "state: Running", "state: Stopped")
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    with monkeypatch.context() as patch:
        BREAKS[place_of_bug](patch)
        result = published.merged()
    assert result.code == 4, result.err
    assert "KeyError" in result.err
    assert "[internal-error]" in result.err
    after = published.tree("eu-1")
    assert "  replicas: 0\n" in after["tenants/uni-lab/compute/group-a.rendered.yaml"], "the other tenant is published"
    ada = {
        path: text
        for path, text in after.items()
        if "/solo-ada/" in path and not path.endswith("--marker.rendered.yaml")
    }
    assert ada
    assert ada == {path: before[path] for path in ada}
    report = re.search(r"tenant solo-ada ran into a bug in Allotment; please send us (\S+)", result.err)
    assert report is not None, result.err
    assert "KeyError: 'spec'" in Path(report[1]).read_text()
    assert published.publish().code == 0, "once the bug is fixed, the tenant is published"
    assert "  replicas: 0\n" in published.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]


def test_a_bug_retains_its_cluster_and_the_others_are_published(
    published: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published.tree("us-1")
    edit(published.root, OTHER, "state: Running", "state: Stopped")
    render_platform = control.render_platform

    def fail_in_us_1(catalog: Catalog, cluster: ScopeDeclarations) -> list[dict[str, Any]]:
        if cluster.name == "us-1":
            raise IndexError
        return render_platform(catalog, cluster)

    message = "clusters/us-1/cluster.yaml:1:1: (file): Allotment failed on this cluster: IndexError in "
    with monkeypatch.context() as patch:
        patch.setattr(control, "render_platform", fail_in_us_1)
        result = published.merged()
        plan = allot("plan", "--repo", published.root, "--base", "HEAD~1")
    assert (result.code, "retained: cluster us-1, 1 problem:" in result.err, message in result.err) == (4, True, True)
    assert "  replicas: 0\n" in published.tree("eu-1")["tenants/uni-lab/compute/group-a.rendered.yaml"]
    assert published.tree("us-1") == before
    assert (plan.code, "the rendered manifests of cluster us-1, which is invalid" in plan.out) == (0, True), plan.err
    assert published.publish().code == 0, "once the bug is fixed, the cluster is published"


def test_validate_reports_a_bug_beside_all_other_problems(
    sample: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(sample, OTHER, "state: Running", "state: Walking")
    _check(monkeypatch)
    result = allot("validate", "--repo", sample)
    assert result.code == 1
    assert "tenants/solo-ada:1:1: (file): Allotment failed on this tenant: KeyError in services/check/" in result.out
    assert f"{OTHER}:" in result.out
    assert "please send us" in result.err
