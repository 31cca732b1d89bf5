"""`allot storage cp`: which words it accepts, and what it says before it reaches a cluster.

`tests/e2e/test_copy.py` copies with the real file server, and `tests/e2e/node/test_files.py` through a real kubelet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conftest import Allot, edit
from tests.support import live
from tests.support.faults import Request, Server, listed, serving
from tests.support.published import Place, git

STORAGE = "tenants/studio-kite/storages/outputs.yaml"
REMOTE = "studio-kite/outputs:/"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve the API of a cluster in which no file server runs."""

    def answer(request: Request) -> None:
        if "forbidden" in request.headers.get("Authorization", ""):
            request.whole(json.dumps({"kind": "Status", "message": "forbidden"}).encode(), 403)
        else:
            listed(live.pod("outputs", node="n1"))(request)

    with serving(otherwise=answer) as server:
        yield server


@pytest.fixture
def words(server: Server, sample: Path, tmp_path: Path) -> tuple[object, ...]:
    """Return the options that name the cluster and the repository, in which the storage may be written to."""
    edit(sample, STORAGE, "  accessor:\n", "  accessor:\n    mode: ReadWrite\n")
    return ("--kubeconfig", write_kubeconfig(server, tmp_path, "t"), "--repo", sample)


def write_kubeconfig(server: Server, folder: Path, token: str) -> Path:
    """Write a kubeconfig, and return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "eu-1",
        "clusters": [{"name": "eu-1", "cluster": {"server": server.url}}],
        "users": [{"name": "ada", "user": {"token": token}}],
        "contexts": [{"name": "eu-1", "context": {"cluster": "eu-1", "user": "ada"}}],
    }
    path = folder / f"kubeconfig-{token}"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("a", "b", "no argument is a path on a storage"),
        (REMOTE, REMOTE, "each argument is a path on a storage"),
        ("a", "studio-kite/outputs:/\udcff", "is not UTF-8, as the paths on a storage are"),
        ("a", "studio-kite/outputs:/../x", "'/../x' is no path on a storage"),
        ("a", "studio-kite/outputs:a//b", "'/a//b' is no path on a storage"),
        ("a", "studio-kite/outputs:/.allotment/complete", "is in a folder that belongs to the storage itself"),
        ("studio-kite/outputs:lost+found/x", "a", "is in a folder that belongs to the storage itself"),
        ("a", "studio-kit/outputs:/", "no tenant is named 'studio-kit'; did you mean 'studio-kite'?"),
        ("a", "studio-kite/output:/", "declares no valid storage named 'output'; did you mean 'outputs'?"),
        (
            "a",
            "ml-orbit/checkpoints:/",
            "storage ml-orbit/checkpoints has no file server: `allot set storage/ml-orbit/checkpoints accessor.mode=ReadWrite --pr`",
        ),
    ],
)
def test_wrong_words_reach_no_cluster(
    source: str, target: str, problem: str, server: Server, words: tuple[object, ...], allot: Allot
) -> None:
    result = allot("storage", "cp", source, target, *words)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert server.requests == []


def test_a_storage_that_may_not_be_written_to_is_explained(
    server: Server, sample: Path, allot: Allot, tmp_path: Path
) -> None:
    options = ("--kubeconfig", write_kubeconfig(server, tmp_path, "t"), "--repo", sample)
    result = allot("storage", "cp", "a", REMOTE, *options)
    assert (result.code, result.out) == (2, "")
    assert "can't be written to: `allot set storage/studio-kite/outputs accessor.mode=ReadWrite --pr`" in result.err
    assert server.requests == []


def test_a_storage_of_a_running_instance_names_the_copy_through_it(
    server: Server, sample: Path, allot: Allot, tmp_path: Path
) -> None:
    options = ("--kubeconfig", write_kubeconfig(server, tmp_path, "t"), "--repo", sample)
    words = ("storage", "cp", "a", "studio-kite/comfy-home:/", *options)
    result = allot(*words)
    assert (result.code, result.out) == (2, "")
    assert (
        "; or copy files through the instance: `tar -c FILES | allot exec studio-kite/comfy -- tar -C /workspace -x`"
        in (result.err)
    )
    edit(sample, "tenants/studio-kite/instances/comfy.yaml", "spec:\n", "spec:\n  access: [SSH]\n")
    command = "`tar -c FILES | $(allot instance open studio-kite/comfy --ssh) tar -C /workspace -x`"
    assert command in allot(*words).err
    edit(
        sample,
        "tenants/studio-kite/instances/comfy.yaml",
        "      mountPath: /workspace\n",
        "      mountPath: /workspace\n      readOnly: true\n",
    )
    assert allot(*words).err.endswith("stop the instance, `allot instance stop studio-kite/comfy --pr`\n")
    assert server.requests == []


def test_a_kubeconfig_without_the_right_is_explained(
    server: Server, words: tuple[object, ...], allot: Allot, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"a")
    options = ("--kubeconfig", write_kubeconfig(server, tmp_path, "forbidden"), *words[2:])
    result = allot("storage", "cp", tmp_path / "a", REMOTE, *options)
    assert (result.code, result.out) == (2, "")
    assert "your kubeconfig doesn't let you list pods and forward ports in namespace t-studio-kite" in result.err


def test_a_file_server_that_does_not_run_is_explained(words: tuple[object, ...], allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    result = allot("storage", "cp", tmp_path / "a", REMOTE, *words)
    assert (result.code, result.out) == (2, "")
    assert "the file server does not run" in result.err


def test_a_branch_names_no_host_for_files(published: Place, allot: Allot) -> None:
    words = ("storage", "cp", "--url", "solo-ada/models:/x", published.root / "x", "--repo", published.root)
    merged = allot(*words)
    assert (merged.code, "cluster eu-1 admits only browsers" in merged.err) == (2, True), merged
    edit(published.root, "clusters/eu-1/cluster.yaml", "  domain: eu-1.gpu.northlight.example", "  domain: evil.test")
    edit(
        published.root, "tenants/solo-ada/storages/models.yaml", "  accessor:\n", "  accessor:\n    exposure: Public\n"
    )
    git(published.root, "-c", "user.name=Eve", "-c", "user.email=eve@evil.test", "commit", "-qam", "Name another host")
    assert allot(*words).err == merged.err


@pytest.mark.process
def test_the_storages_are_completed(sample: Path) -> None:
    from tests.support.shell_completion import completed

    assert completed("allot storage cp a studio-kite/o", sample) == [
        "studio-kite/outputs:/",
        "studio-kite/outputs-restored:/",
        "studio-kite/o",
    ]
