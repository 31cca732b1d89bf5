"""From an empty folder to a published branch, as a person does it: by what `allot init` and its files say, word for word,
at a terminal of 80 columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.new_repository import COMMIT, URL
from tests.support.published import git
from tests.support.terminal import Session

pytestmark = pytest.mark.process


INSTANCE = """\
# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: bench
spec:
  cluster: eu-1
  gpuSpec: l4-whole
  container:
    image: {image}
"""

STORAGE = """\
# yaml-language-server: $schema=../../../schemas/GPUStorage.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUStorage
metadata:
  name: models
spec:
  cluster: eu-1
  storageSpec: block-ssd
  size: 20Gi
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A shell whose Git finds the forge's address in a folder, and whose `allot` is this program."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "forge.git")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "allot").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m allotment "$@"\n')
    (programs / "allot").chmod(0o755)
    pairs = {
        f"url.{tmp_path}/forge.git.insteadOf": URL,
        "user.name": "Alice",
        "user.email": "alice@acme.dev",
        "advice.detachedHead": "false",
    }
    environment = {
        "GIT_CONFIG_COUNT": str(len(pairs)),
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    for number, (key, value) in enumerate(pairs.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    shell_session = Session(tmp_path, environment)
    yield shell_session
    shell_session.close()


def test_from_an_empty_folder_to_a_published_branch(session: Session, tmp_path: Path) -> None:
    session.begins(f"allot init gpus --program '{COMMIT}' --url {URL}")
    session.asks("The kind of forge that hosts the repository (GitHub, GitLab, Gitea, Forgejo):", "github")
    session.asks("The first cluster's name [eu-1]:", "")
    session.asks("The parent domain of all instances:", "gpu.acme.dev")
    session.asks("The OIDC issuer for logins, https://…:", "https://id.acme.dev")
    session.asks("Your login at the forge; you approve changes to the platform:", "alice")
    session.asks(
        "The apps to offer (code-server, comfyui, jupyter, stable-diffusion-webui, vllm; or none) [jupyter]:", "none"
    )
    session.asks("The add-ons that the cluster lacks (or none)", "none")
    session.asks("The image of the file server of storages (or none)", "none")
    output = session.ended()
    commands = [line.strip() for line in output.split("Next:\n")[1].split("\n\n")[0].splitlines()]
    assert commands[-1].startswith("allot bootstrap | kubectl apply")
    for command in commands[:-1]:
        session.types(command)
    assert "rendered" not in git(tmp_path / "forge.git", "branch")
    assert "kind: Application\n" in session.types("allot bootstrap")

    first = session.types("allot publish")
    assert "rendered/eu-1 is " in first
    page = (tmp_path / "gpus/tenants/README.md").read_text()
    for above, block in zip(page.split("```")[::2], page.split("```")[1::2], strict=False):
        path = tmp_path / "gpus" / above.strip().splitlines()[-1].strip("`")
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.removeprefix("yaml\n"))
    planned = session.types("allot plan")
    assert planned.splitlines()[0].startswith("can be merged")
    assert "studio-kite" in planned

    instance = tmp_path / "gpus/tenants/studio-kite/instances/bench.yaml"
    instance.parent.mkdir()
    instance.write_text(INSTANCE.format(image="nginx:latest"))
    refused = session.types("allot validate", status=1)
    where = "tenants/studio-kite/instances/bench.yaml:10:12: spec.container.image:"
    assert where in refused.replace("\n", "")
    assert "    image: nginx:latest\n" in refused, "the line, with a caret"
    instance.unlink()
    instance.parent.rmdir()
    storage = tmp_path / "gpus/tenants/studio-kite/storages/models.yaml"
    storage.parent.mkdir()
    storage.write_text(STORAGE)
    assert "GPUStorage" not in session.types("allot fmt --check")

    session.types("git add --all && git commit --quiet --message 'Add studio-kite' && git push --quiet origin main")
    assert session.types("allot catalog --tenant studio-kite").count("l4-whole") >= 1
    second = session.types("allot publish")
    assert "rendered/eu-1 is " in second
    message = git(tmp_path / "forge.git", "log", "-1", "--format=%B", "rendered/eu-1")
    assert "\nstudio-kite: storage models added\n" in message
    files = git(tmp_path / "forge.git", "ls-tree", "-r", "--name-only", "rendered/eu-1").splitlines()
    assert "control/namespaces/s/studio-kite.rendered.yaml" in files
    seen = session.types("allot status")
    assert "studio-kite/models" in seen
    assert "no reporter has reported it yet" in seen.replace("\n", " "), "no reporter was ever there"
    session.types("allot wait studio-kite/models --for Ready --timeout 1s", status=124)
