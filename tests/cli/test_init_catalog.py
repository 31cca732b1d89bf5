"""`allot init` with apps, add-ons and a file server: what the registries know is declared with its digest."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.adapters.registry.server import INDEX, Answer, digest_of, serving_https
from tests.conftest import DAY, Allot
from tests.support.new_repository import CLOUD, COMMIT, URL
from tests.support.terminal import ALLOT, Session

from allotment.starter.apps import APPS, FILES_IMAGE

HOSTS = ["registry-1.docker.io", "quay.io"]
ADD_ONS = ("cert-manager", "envoy-gateway", "nvidia-device-plugin")
WORDS = ("--program", COMMIT, "--forge", "GitHub", "--url", URL)
CHOICE = [word for name in APPS for word in ("--app", name)]
CHOICE += [*(word for name in ADD_ONS for word in ("--add-on", name)), "--files-image", FILES_IMAGE]

INSTANCE = """\
# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: first
spec:
  app:
    name: {name}
    version: "{version}"
  cluster: eu-1
  gpuSpec: l4-whole
"""


@pytest.fixture
def registries(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the variables with which a program reaches registries that have every image."""
    has_it = Answer(200, INDEX, {"Docker-Content-Digest": digest_of(INDEX)})
    with serving_https(tmp_path, HOSTS, lambda _: has_it) as (_, variables):
        yield variables


@pytest.fixture
def with_registries(registries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in registries.items():
        monkeypatch.setenv(name, value)


def spec(path: Path) -> Any:
    return yaml.safe_load(path.read_text())["spec"]


@pytest.mark.usefixtures("with_registries")
@pytest.mark.parametrize("name", APPS)
def test_the_first_tenant_can_start_an_app(name: str, allot: Allot, tmp_path: Path) -> None:
    folder = tmp_path / "gpus"
    result = allot("init", folder, *WORDS, *CLOUD, *CHOICE)
    assert (result.code, result.err) == (0, "")
    assert "is not declared" not in result.out
    assert "and there are none yet" not in result.out
    assert spec(folder / "platform/platform.yaml")["images"] == {"files": f"{FILES_IMAGE}@{digest_of(INDEX)}"}
    assert sorted(path.stem for path in (folder / "platform/apps").iterdir()) == sorted(APPS)
    assert sorted(path.stem for path in (folder / "platform/add-ons").iterdir()) == sorted(ADD_ONS)
    (version,) = spec(folder / f"platform/apps/{name}.yaml")["versions"]
    assert version["container"]["image"] == f"{APPS[name].image}@{digest_of(INDEX)}"
    tenant = folder / "tenants/blue-fox"
    (tenant / "instances").mkdir(parents=True)
    head = "apiVersion: allotment.dev/v1alpha1\nkind: {0}\nmetadata:\n  name: blue-fox\nspec:\n  {1}\n"
    (tenant / "tenant.yaml").write_text(head.format("Tenant", "plan: team"))
    member = "users:\n    - name: fay\n      role: Admin\n      login: fay-b#5150\n      subject: 00u1fay"
    (tenant / "members.yaml").write_text(head.format("Members", member))
    (tenant / "instances/first.yaml").write_text(INSTANCE.format(name=name, version=APPS[name].version))
    checked = allot("validate", "--repo", folder, "--as-of", DAY)
    *warnings, summary, _ = checked.out.splitlines()
    assert (checked.code, summary.split(",")[0]) == (0, "19 files of 1 tenant: fine")
    needed = [each for each in version.get("folders", []) if not each.get("optional")]
    assert len(warnings) == len(needed), "the instance has no storage"
    assert all(line.endswith("[unsaved-folder]") for line in warnings)
    assert allot("fmt", "--check", "--repo", folder, folder / "platform").code == 0


def test_without_a_network_it_says_how_to_declare_the_images_later(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    words = ("--app", "vllm", "--add-on", "cert-manager", "--files-image", "sigoden/dufs:v0.46.0")
    result = allot("init", tmp_path / "gpus", *WORDS, *CLOUD, *words)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    at = lines.index("To declare it later: allot app add vllm")
    assert lines[at - 1].startswith(
        f"{APPS['vllm'].image} is not declared: registry registry-1.docker.io gives no answer: "
    )
    assert "To declare it later: write `images.files` below `spec:` in platform/platform.yaml, with the digest" in lines
    assert not (tmp_path / "gpus/platform/apps").exists()
    assert (tmp_path / "gpus/platform/add-ons/cert-manager.yaml").is_file()
    output = json.loads(allot("init", tmp_path / "json", *WORDS, *CLOUD, *words, "-o", "json").out)
    assert [(image["image"], image["remedy"]) for image in output["missingImages"]] == [
        (APPS["vllm"].image, "allot app add vllm"),
        ("sigoden/dufs:v0.46.0", "write `images.files` below `spec:` in platform/platform.yaml, with the digest"),
    ]
    assert allot("validate", "--repo", tmp_path / "gpus", "--as-of", DAY).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--app", "vlm"), "--app: 'vlm' is not one of code-server, comfyui, jupyter, stable-diffusion-webui, vllm"),
        (("--add-on", "rook"), "--add-on: 'rook' is not one of cert-manager, envoy-gateway, nvidia-device-plugin"),
        (("--files-image", "dufs"), "--files-image: image 'dufs' has no tag: write registry/name:tag, such as"),
        (("--sample", "--app", "vllm"), "--app: only for a new cloud, so neither with --sample nor with --upgrade"),
        (("--upgrade", "--add-on", "cert-manager"), "--add-on: only for a new cloud"),
    ],
)
def test_a_wrong_choice_changes_nothing(words: tuple[str, ...], message: str, allot: Allot, tmp_path: Path) -> None:
    result = allot("init", tmp_path / "gpus", *WORDS, *CLOUD, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(f"Error: {message}")
    assert not (tmp_path / "gpus").exists()


def test_on_a_terminal_it_asks_for_the_catalog_too(tmp_path: Path, registries: dict[str, str]) -> None:
    session = Session(tmp_path, registries)
    session.begins(shlex.join([*ALLOT, "init", "gpus", *WORDS, *CLOUD[:-2]]))
    session.asks("you approve changes to the platform:", "alice")
    session.asks("vllm; or none) [jupyter]:", "vlm")
    session.asks("'vlm' is not one of", "vllm, jupyter")
    session.asks("(or none) [cert-manager envoy-gateway nvidia-device-plugin]:", "none")
    session.asks(f"[{FILES_IMAGE}]:", "")
    assert "Next:" in session.ended()
    session.close()
    assert sorted(path.stem for path in (tmp_path / "gpus/platform/apps").iterdir()) == ["jupyter", "vllm"]
    assert not (tmp_path / "gpus/platform/add-ons").exists()
    assert spec(tmp_path / "gpus/platform/platform.yaml")["images"] == {"files": f"{FILES_IMAGE}@{digest_of(INDEX)}"}
