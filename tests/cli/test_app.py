"""`allot app`: what it declares is valid and pinned, no merged version changes, and wrong values change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.adapters.registry.server import INDEX, Answer, Request, digest_of, serving_https
from tests.conftest import Allot
from tests.support.published import Place, git

from allotment.starter.apps import APPS

HOSTS = ["registry-1.docker.io", "quay.io", "registry.example"]
DIGEST = digest_of(INDEX)
VLLM = "platform/apps/vllm.yaml"
UNKNOWN = Answer(404, json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN"}]}).encode())


def answer(request: Request) -> Answer:
    """Answer as a registry that has all images, but not those of the tag 404."""
    return UNKNOWN if request.path.endswith("/404") else Answer(200, INDEX, {"Docker-Content-Digest": DIGEST})


@pytest.fixture(autouse=True)
def registries(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Request]]:
    """Let the command line reach registries, and return their requests."""
    with serving_https(tmp_path_factory.mktemp("registry"), HOSTS, answer) as (registry, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield registry.requests


def versions(place: Place, path: str) -> list[dict[str, object]]:
    all_versions: list[dict[str, object]] = yaml.safe_load((place.root / path).read_text())["spec"]["versions"]
    return all_versions


def test_an_app_of_the_catalog_is_declared_with_its_digest(published: Place, allot: Allot) -> None:
    result = allot("app", "add", "code-server", "--repo", published.root)
    assert result.code == 0, result
    path = "platform/apps/code-server.yaml"
    assert f"+        image: {APPS['code-server'].image}@{DIGEST}\n" in result.out
    assert "Add app code-server: 1 file changed." in result.out
    assert git(published.root, "status", "--short", "--untracked-files=all") == f"?? {path}"
    assert allot("validate", published.root / path, "--repo", published.root).code == 0
    assert allot("fmt", "--check", "--repo", published.root, published.root / path).code == 0


def test_a_mirror_serves_an_app_of_the_catalog(published: Place, allot: Allot) -> None:
    image = "registry.example/mirror/vllm-openai:v0.29.0"
    result = allot("app", "add", "chat", "--from", "vllm", "--image", image, "--commit", "--repo", published.root)
    assert result.code == 0, result
    (version,) = versions(published, "platform/apps/chat.yaml")
    assert version["version"] == "0.29.0"
    assert version["container"] == {"image": f"{image}@{DIGEST}", **APPS["vllm"].container}
    assert git(published.root, "log", "-1", "--format=%s") == "Add app chat"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("add", "code-server"), f"--from code-server --image {APPS['code-server'].image}@sha256:DIGEST"),
        (
            ("add", "chat", "--image", "registry.example/apps/chat:1"),
            "--image registry.example/apps/chat:1@sha256:DIGEST",
        ),
        (("pin", "vllm", "vllm/vllm-openai:v9.9.9"), "vllm/vllm-openai:v9.9.9@sha256:DIGEST"),
    ],
)
def test_an_operation_needs_a_digest(
    words: tuple[str, ...], remedy: str, published: Place, allot: Allot, registries: list[Request]
) -> None:
    ending = ("--operation-id", "deploy-2026.11_a", "--repo", published.root)
    result = allot("app", *words, *ending)
    assert (result.code, result.out, registries) == (2, "", [])
    assert "has no digest, and a repeat with --operation-id could get another digest of the tag" in result.err
    assert f"write '{remedy}'" in result.err
    exact = remedy.replace("sha256:DIGEST", DIGEST).split()
    repeated = (*words[:2], *exact) if words[0] == "add" else ("pin", "vllm", *exact)
    first = allot("app", *repeated, *ending, "-o", "json")
    assert first.code == 0, first
    assert allot("app", *repeated, *ending, "-o", "json") == first
    assert registries == []


def test_any_image_can_be_an_app(published: Place, allot: Allot) -> None:
    words = ("--image", "registry.example/apps/whisper:v1.0.0", "--port", "8000", "--ready-path", "/health")
    more = ("--arg=--host=0.0.0.0", "--folder", "/models", "--shm-size", "2Gi", "--display-name", "Whisper")
    result = allot("app", "add", "whisper", *words, *more, "--repo", published.root)
    assert result.code == 0, result
    assert yaml.safe_load((published.root / "platform/apps/whisper.yaml").read_text())["spec"] == {
        "displayName": "Whisper",
        "versions": [
            {
                "version": "1.0.0",
                "container": {
                    "image": f"registry.example/apps/whisper:v1.0.0@{DIGEST}",
                    "args": ["--host=0.0.0.0"],
                    "ports": [{"name": "http", "containerPort": 8000, "protocol": "HTTP", "exposure": "Members"}],
                    "probe": {"httpGet": {"path": "/health", "port": "http"}, "startTimeout": "10m"},
                    "shmSize": "2Gi",
                },
                "folders": [{"path": "/models"}],
            }
        ],
    }


def test_an_image_under_the_name_of_a_built_in_app_says_what_it_lacks(published: Place, allot: Allot) -> None:
    words = ("app", "add", "code-server", "--image", "registry.example/apps/code:1.0.0", "--repo", published.root)
    note = "The App has only the values of your options, without those of the built-in app code-server: "
    assert f"{note}port 8080, folder " in allot(*words, "--dry-run").out
    assert note not in allot(*words, "--from", "code-server", "--dry-run").out


def test_a_pin_adds_a_version_and_a_deprecation_closes_the_old_one(published: Place, allot: Allot) -> None:
    (before,) = versions(published, VLLM)
    pinned = allot("app", "pin", "vllm", "vllm/vllm-openai:v0.28.0", "--commit", "--repo", published.root)
    assert pinned.code == 0, pinned
    words = ("vllm", "0.14.0", "--replaced-by", "0.28.0", "--commit")
    deprecated = allot("app", "deprecate", *words, "--repo", published.root)
    assert deprecated.code == 0, deprecated
    old, new = versions(published, VLLM)
    assert old == {**before, "lifecycle": "Deprecated", "replacedBy": "0.28.0"}
    image = f"docker.io/vllm/vllm-openai:v0.28.0@{DIGEST}"
    assert new["container"] == {**before["container"], "image": image}  # type: ignore[dict-item]  # YAML has no types
    subjects = git(published.root, "log", "-2", "--format=%s").splitlines()
    assert subjects == ["Deprecate version 0.14.0 of app vllm", "Add version 0.28.0 of app vllm"]


def test_an_image_with_a_digest_needs_no_registry(
    published: Place, allot: Allot, registries: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = f"registry.internal/vllm:v0.28.0@sha256:{64 * 'b'}"
    output = json.loads(allot("app", "pin", "vllm", image, "-o", "json", "--repo", published.root).out)
    assert (output["stage"], output["resources"]) == ("Folder", ["App vllm"])
    assert versions(published, VLLM)[1]["container"]["image"] == image  # type: ignore[index]  # YAML has no types
    assert registries == []


WRONG = [
    (
        ("add", "vlm"),
        "the catalog has no app 'vlm': add --image IMAGE:TAG to declare it from an image; did you mean 'vllm'?",
    ),
    (("add", "chat", "--from", "gpt"), "the catalog has no app 'gpt'; known: code-server, comfyui, jupyter"),
    (("add", "vllm"), "platform/apps/vllm.yaml exists already"),
    (("add", "V", "--from", "vllm"), "name 'V'"),
    (("add", "chat", "--from", "vllm", "--port", "80"), "--port: only with --image and without --from"),
    (("add", "chat", "--image", "a/b:1", "--ready-path", "/x"), "--ready-path: add --port NUMBER"),
    (
        ("add", "chat", "--image", "a/b:1", "--port", "0"),
        "Invalid value for '--port': '0' is not a whole number from 1 to 65535",
    ),
    (("add", "chat", "--image", "a/b:1", "--exposure", "All"), "'All' is not one of 'Namespace', 'Members', 'Public'"),
    (("add", "chat", "--image", "a/b:1", "--shm-size", "2GB"), "allot: --shm-size: '2GB'"),
    (("add", "chat", "--image", "a/b:latest"), "image 'a/b:latest' names 'latest', which moves"),
    (("add", "chat", "--image", "a/b:404"), "registry docker.io has no image docker.io/a/b:404: check the name"),
    (("pin", "vlm", "a/b:1"), "has no App named 'vlm'; did you mean 'vllm'?"),
    (("pin", "vllm", "a/b"), "image 'a/b' has no tag"),
    (("pin", "vllm", "a/b:1", "--version", "0.14.0"), "app vllm has version 0.14.0 already"),
    (("pin", "vllm", "a/b:1", "--like", "9"), "app vllm has no version '9'; known: 0.14.0"),
    (("pin", "vllm", f"a/b:{'x' * 40}"), "add --version NAME"),
    (("pin", "vllm", "quay.io/a/b:404"), "registry quay.io has no image quay.io/a/b:404"),
    (("deprecate", "vlm"), "has no App named 'vlm'; did you mean 'vllm'?"),
    (("deprecate", "vllm", "9"), "app vllm has no version '9'; known: 0.14.0"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(words)[:40] for words, _ in WRONG])
def test_a_wrong_value_is_one_line_and_changes_nothing(
    words: tuple[str, ...], message: str, published: Place, allot: Allot
) -> None:
    result = allot("app", *words, "--repo", published.root)
    assert (result.code, result.out) == (2, "")
    assert message in result.err.splitlines()[-1]
    assert git(published.root, "status", "--short") == ""


def test_nothing_changes_if_the_version_is_deprecated_already(published: Place, allot: Allot) -> None:
    result = allot("app", "deprecate", "stable-diffusion-webui", "1.10.1", "--repo", published.root)
    assert (result.code, "nothing changes" in result.out) == (0, True)
    assert git(published.root, "status", "--short") == ""


def test_the_list_has_the_declared_apps_and_the_rest_of_the_catalog(sample: Path, allot: Allot) -> None:
    result = allot("app", "list", "--repo", sample)
    assert (result.code, result.err) == (0, "")
    lines = [line.split()[:3] for line in result.out.splitlines()]
    assert lines[0] == ["APP", "VERSION", "LIFECYCLE"]
    assert ["stable-diffusion-webui", "1.10.1", "Deprecated"] in lines
    assert lines[-1] == ["code-server", APPS["code-server"].version, "not"]
    names = allot("app", "list", "-o", "name", "--repo", sample).out.splitlines()
    assert names == ["comfyui", "jupyter", "lora-trainer", "stable-diffusion-webui", "triton", "vllm"]
    output = json.loads(allot("app", "list", "-o", "json", "--repo", sample).out)
    assert output["kind"] == "AppOutput"
    assert [(app["name"], app["isDeclared"]) for app in output["catalog"]] == [
        ("code-server", False),
        ("comfyui", True),
        ("jupyter", True),
        ("stable-diffusion-webui", True),
        ("vllm", True),
    ]
    (vllm,) = [app for app in output["apps"] if app["name"] == "vllm"]
    assert [(version["version"], version["lifecycle"]) for version in vllm["versions"]] == [("0.14.0", "Active")]


def test_an_app_that_cannot_be_read_is_reported_beside_the_rest(sample: Path, allot: Allot) -> None:
    (sample / VLLM).write_text((sample / VLLM).read_text().replace("0.14.0@", "latest@"))
    result = allot("app", "list", "--repo", sample)
    assert result.code == 1
    assert result.err.startswith(f"{VLLM}:12:16: spec.versions[0].container.image: ")
    assert "comfyui" in result.out


def test_the_command_without_a_registry_is_complete(published: Place, allot: Allot) -> None:
    words = ("app", "add", "stable-diffusion-webui", "--operation-id", "deploy-1234567", "--repo", published.root)
    image = APPS["stable-diffusion-webui"].image
    assert f"write '--from stable-diffusion-webui --image {image}@sha256:DIGEST'\n" in allot(*words).err


def test_an_absent_registry_is_an_error_that_names_the_command_without_it(published: Place, allot: Allot) -> None:
    image = APPS["code-server"].image.replace("docker.io/", "registry.invalid/")
    result = allot("app", "add", "editor", "--from", "code-server", "--image", image, "--repo", published.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(
        f" or write the image with its digest, as NAME@sha256:DIGEST: '--image {image}@sha256:DIGEST' in the same command needs no registry\n"
    )
    assert git(published.root, "status", "--short") == ""
