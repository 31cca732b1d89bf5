"""The gate lets a change of a Secret restart an instance only if the instance declares it and reads this Secret."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.conftest import DAY, copy_sample
from tests.support.reload_annotation import RELOAD
from tests.support.secret_policy import WEBUI, Bed
from tests.support.secret_store import declare_all, declare_restart

from allotment.problems import IsolationBroken

SECRET = "huggingface--secret"
OF_ANOTHER = "other--secret"
FORMS = ["", ".*", "oidc", "huggingface--secret,", f"{SECRET},.*--secret", "registry--image-pull"]


def build_bed(tmp_path_factory: pytest.TempPathFactory, *, restart: bool) -> Bed:
    """Return a bed in which the instance restarts or keeps running."""
    root = tmp_path_factory.mktemp("reload")
    copy_sample(root / "repo")
    (declare_restart if restart else declare_all)(root / "repo")
    run = [sys.executable, "-m", "allotment", "render", "--repo", str(root / "repo"), "--out", str(root / "out")]
    subprocess.run([*run, "--as-of", str(DAY)], check=True, capture_output=True)
    return Bed(root / "repo", root / "out")


@pytest.fixture(scope="module")
def restarting(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    return build_bed(tmp_path_factory, restart=True)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    return build_bed(tmp_path_factory, restart=False)


@pytest.mark.parametrize("published", [False, True], ids=["rendered", "published"])
def test_the_gate_accepts_a_rendered_reload_annotation(restarting: Bed, published: bool) -> None:
    assert restarting.objects(WEBUI)[0]["metadata"]["annotations"][RELOAD] == SECRET
    for _ in range(2):  # the second time, by its frame
        restarting.check(WEBUI, restarting.objects(WEBUI), published=published)


@pytest.mark.parametrize("value", [None, OF_ANOTHER, f"{OF_ANOTHER},{SECRET}", *FORMS])
def test_no_other_secret_restarts_the_instance(restarting: Bed, value: str | None) -> None:
    objects = restarting.objects(WEBUI)
    annotations = objects[0]["metadata"]["annotations"]
    if value is None:
        del annotations[RELOAD]
    else:
        annotations[RELOAD] = value
    for _ in range(2):
        with pytest.raises(IsolationBroken):
            restarting.check(WEBUI, objects)


@pytest.mark.parametrize("value", FORMS)
def test_no_other_form_stays_published(restarting: Bed, value: str) -> None:
    objects = restarting.objects(WEBUI)
    objects[0]["metadata"]["annotations"][RELOAD] = value
    with pytest.raises(IsolationBroken):
        restarting.check(WEBUI, objects, published=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reloader.stakater.com/auto", "true"),
        ("secret.reloader.stakater.com/auto", "true"),
        ("configmap.reloader.stakater.com/reload", "x"),
        ("reloader.stakater.com/search", "true"),
    ],
)
def test_no_other_annotation_of_reloader_is_rendered(restarting: Bed, key: str, value: str) -> None:
    objects = restarting.objects(WEBUI)
    objects[0]["metadata"]["annotations"][key] = value
    for published in (False, True):
        with pytest.raises(IsolationBroken):
            restarting.check(WEBUI, objects, published=published)


def test_an_instance_that_keeps_running_has_no_annotation(keeping: Bed) -> None:
    objects = keeping.objects(WEBUI)
    assert RELOAD not in objects[0]["metadata"]["annotations"]
    objects[0]["metadata"]["annotations"][RELOAD] = SECRET
    with pytest.raises(IsolationBroken, match="no Secret"):
        keeping.check(WEBUI, objects)
