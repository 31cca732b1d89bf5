"""The gate lets a tenant's pods have the number of restarts as their only annotation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import copy_sample, edit
from tests.support.reload_annotation import RELOAD
from tests.support.secret_policy import WEBUI, Bed, render_bed

from allotment.problems import IsolationBroken

RESTARTS = "allotment.dev/restarts"


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    root = copy_sample(tmp_path_factory.mktemp("restarts") / "repo")
    edit(root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  restarts: 3\n")
    return render_bed(root)


@pytest.mark.parametrize("published", [False, True])
def test_the_number_of_restarts_passes(restarted: Bed, published: bool) -> None:
    objects = restarted.objects(WEBUI)
    assert objects[0]["spec"]["template"]["metadata"]["annotations"] == {RESTARTS: "3"}
    for number in ("3", "4", "999999"):
        objects[0]["spec"]["template"]["metadata"]["annotations"] = {RESTARTS: number}
        restarted.check(WEBUI, objects, published=published)


@pytest.mark.parametrize(
    "annotations",
    [
        {RESTARTS: "-1"},
        {RESTARTS: "x"},
        {RESTARTS: ""},
        {RESTARTS: "12345678"},
        {RESTARTS: "3", RELOAD: "a--secret"},
        {"k8s.v1.cni.cncf.io/networks": "host"},
        {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    ],
)
@pytest.mark.parametrize("published", [False, True])
def test_no_other_annotation_passes(restarted: Bed, annotations: dict[str, Any], published: bool) -> None:
    objects = restarted.objects(WEBUI)
    objects[0]["spec"]["template"]["metadata"]["annotations"] = annotations
    with pytest.raises(IsolationBroken):
        restarted.check(WEBUI, objects, published=published)
