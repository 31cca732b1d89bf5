"""Edits of apps: a pin adds a version and changes no other, and a deprecation changes the lifecycle alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.conftest import PROJECT

from allotment.declared.image_reference import parse_image_reference
from allotment.declared.kinds.app import AppVersion
from allotment.edits.app_edits import (
    add_app,
    deprecate_versions,
    find_newest_version,
    pin_version,
    version_of_tag,
)
from allotment.edits.declarations import Declarations
from allotment.problems import OperationRefused
from allotment.starter.apps import ImageSettings, image_spec

DIGEST = f"sha256:{64 * 'a'}"
IMAGE = parse_image_reference(f"registry.example/apps/vllm:v0.15.0@{DIGEST}")
VLLM = "platform/apps/vllm.yaml"
WEBUI = "platform/apps/stable-diffusion-webui.yaml"


def declarations(root: Path = PROJECT) -> Declarations:
    """Return the declarations of the sample."""
    paths = sorted(path.relative_to(root).as_posix() for path in (root / "platform").rglob("*.yaml"))

    def read(path: str) -> bytes | None:
        return (root / path).read_bytes() if (root / path).is_file() else None

    return Declarations(read, lambda _: paths, lambda _: [])


def test_a_pin_adds_a_version_like_the_newest() -> None:
    change = pin_version(declarations(), "vllm", IMAGE)
    before, after = (PROJECT / VLLM).read_bytes(), change.files[VLLM]
    assert after is not None
    old, new = (yaml.safe_load(data)["spec"]["versions"] for data in (before, after))
    assert new[0] == old[0], "the version that exists stays as it is"
    assert new[1] == {
        **old[0],
        "version": "0.15.0",
        "container": {**old[0]["container"], "image": f"registry.example/apps/vllm:v0.15.0@{DIGEST}"},
    }
    assert after.startswith(before), "no line of the file changes"
    assert (change.title, change.resources) == ("Add version 0.15.0 of app vllm", ("App vllm",))
    assert change.notes == (f"The container is that of version 0.14.0, with the image {IMAGE.with_digest(DIGEST)}.",)


def test_a_pin_copies_the_version_that_is_named_without_its_lifecycle() -> None:
    change = pin_version(declarations(), "stable-diffusion-webui", IMAGE, version="2.0", like="1.10.1")
    data = change.files[WEBUI]
    assert data is not None
    versions = yaml.safe_load(data)["spec"]["versions"]
    assert [version["version"] for version in versions] == ["1.10.1", "1.11.0", "2.0"]
    assert versions[2] == {
        "version": "2.0",
        "container": {**versions[0]["container"], "image": IMAGE.with_digest(DIGEST)},
        "folders": versions[0]["folders"],
    }


def test_a_deprecation_changes_the_lifecycle_alone() -> None:
    change = deprecate_versions(declarations(), "vllm", "0.14.0")
    data = change.files[VLLM]
    assert data is not None
    before, after = (PROJECT / VLLM).read_text().splitlines(), data.decode().splitlines()
    added = [line for line in after if line not in before]
    assert added == ["      lifecycle: Deprecated"]
    assert len(after) == len(before) + 1


def test_all_versions_but_the_replacement_are_deprecated() -> None:
    change = deprecate_versions(declarations(), "stable-diffusion-webui", replaced_by="1.11.0")
    data = change.files[WEBUI]
    assert data is not None
    versions = yaml.safe_load(data)["spec"]["versions"]
    assert [(version.get("lifecycle"), version.get("replacedBy")) for version in versions] == [
        ("Deprecated", "1.11.0"),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["1.9", "1.10", "1.2"], "1.10"),
        (["2026-09-01", "2026-10-05"], "2026-10-05"),
        (["a", "1"], "1"),
        (["0.14.0", "0.14.0.post1"], "0.14.0.post1"),
        (["1.2.0-rc1", "1.2.0", "1.1.9"], "1.2.0"),
    ],
)
def test_the_newest_version_has_the_highest_numbers(names: list[str], newest: str) -> None:
    container = {"image": IMAGE.with_digest(DIGEST)}
    versions = [AppVersion.model_validate({"version": name, "container": container}) for name in names]
    assert find_newest_version(versions).version == newest


def test_a_version_has_the_name_of_its_tag() -> None:
    assert [version_of_tag(tag) for tag in ("v1.2", "1.2", "vast", "cu130-slim")] == [
        "1.2",
        "1.2",
        "vast",
        "cu130-slim",
    ]


def refusal(function: object, *arguments: object, **more: object) -> str:
    with pytest.raises(OperationRefused) as raised:
        function(declarations(), *arguments, **more)  # type: ignore[operator]
    return str(raised.value)


def test_the_edits_of_an_app_refuse_an_invalid_change() -> None:
    used = parse_image_reference(
        yaml.safe_load((PROJECT / VLLM).read_text())["spec"]["versions"][0]["container"]["image"]
    )
    assert refusal(pin_version, "vlm", IMAGE).endswith("has no App named 'vlm'; did you mean 'vllm'?")
    assert "app vllm has version 0.14.0 already" in refusal(pin_version, "vllm", IMAGE, version="0.14.0")
    assert "version 0.14.0 of app vllm has this image already" in refusal(pin_version, "vllm", used, version="1")
    assert refusal(pin_version, "vllm", IMAGE, like="9") == "app vllm has no version '9'; known: 0.14.0"
    assert "spec.versions[1].version: 'a b' is not allowed" in refusal(pin_version, "vllm", IMAGE, version="a b")
    assert refusal(deprecate_versions, "vllm", "9") == "app vllm has no version '9'; known: 0.14.0"
    assert refusal(deprecate_versions, "vllm", "0.14.0", "9") == "app vllm has no version '9'; known: 0.14.0"
    assert "can't replace itself" in refusal(deprecate_versions, "vllm", "0.14.0", "0.14.0")
    assert "platform/apps/vllm.yaml exists already" in refusal(add_app, "vllm", {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ImageSettings(port=80, ready_path="health"), "spec.versions[0].container.probe.httpGet.path"),
        (ImageSettings(folders=("models",)), "spec.versions[0].folders[0].path"),
        (ImageSettings(folders=("/models", "/models")), "spec.versions[0].folders"),
        (ImageSettings(shm_size="2GB"), "spec.versions[0].container.shmSize"),
    ],
)
def test_a_wrong_setting_is_named_with_its_field(settings: ImageSettings, message: str) -> None:
    spec = image_spec(IMAGE.with_digest(DIGEST), "1", settings)
    assert refusal(add_app, "whisper", spec).startswith(message)
