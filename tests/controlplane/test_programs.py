"""Where programs come from: given folders first, then the cache by what is pinned; what is missing is named."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.controlplane import crds, programs, protocols
from tests.support.program_cache import empty_cache, executable

__all__ = ["empty_cache"]  # a fixture


def test_every_tool_pins_its_version() -> None:
    assert {tool: programs.version(tool) for tool in programs.TOOLS} == {
        "etcd": "v3.6.14",
        "kwok": "v0.8.0",
        "kubernetes": "v1.36.3",
        "argocd": "v3.2.11",
        "gitea": "v1.26.0",
        "karpenter": "v1.14.1",
        "cyclonus": "v0.5.6",
        "external-secrets": "v0.16.2",
    }
    assert programs.version("argocd") == crds.SOURCES[programs.TOOLS["argocd"].module].version
    assert programs.version("karpenter") == crds.SOURCES[programs.TOOLS["karpenter"].module].version


def test_the_nodes_programs_are_of_the_clusters_version() -> None:
    assert {tool: programs.version(tool) for tool in programs.NODE} == {
        "kubelet": programs.version("kubernetes"),
        "containerd": "v2.3.7",
        "runc": "v1.5.2",
        "cni": "v1.9.1",
        "coredns": "v1.15.0",
        "envoygateway": crds.SOURCES[programs.NODE["envoygateway"].module].version,
    }
    assert protocols.SOURCES["k8s.io/kubelet"].version == programs.version("kubelet").replace("v1.", "v0.")


def test_without_anything_all_is_missing(empty_cache: Path) -> None:
    assert programs.missing() == list(programs.TOOLS)
    with pytest.raises(programs.NotBuilt, match="kubectl"):
        programs.program("kubectl")


@pytest.mark.parametrize("variable", programs.GIVEN)
def test_a_given_program_is_used(
    variable: str, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preinstalled = executable(tmp_path / "given" / "etcd")
    monkeypatch.setenv(variable, str(preinstalled.parent))
    assert programs.program("etcd") == preinstalled
    assert "etcd" not in programs.missing()
    assert "kubernetes" in programs.missing()


def test_the_first_given_folder_wins_over_the_second_and_the_cache(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = executable(programs.home("etcd") / "etcd")
    assert programs.program("etcd") == built
    second = executable(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(second.parent))
    assert programs.program("etcd") == second
    first = executable(tmp_path / "given" / "etcd")
    monkeypatch.setenv("ALLOT_CONTROLPLANE", str(first.parent))
    assert programs.program("etcd") == first


def test_another_pin_is_another_place(empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = programs.home("etcd")
    for name in ("go.mod", "go.sum"):
        target = tmp_path / "etcd" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((programs.MODULES / "etcd" / name).read_text() + "\n// another\n")
    monkeypatch.setattr(programs, "MODULES", tmp_path)
    assert programs.home("etcd") != before


def test_other_code_of_ours_is_another_place(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = programs.home("cyclonus")
    target = tmp_path / "cyclonus"
    shutil.copytree(programs.MODULES / "cyclonus", target)
    monkeypatch.setattr(programs, "MODULES", tmp_path)
    assert programs.home("cyclonus") == before
    main = target / "main.go"
    main.write_text(main.read_text() + "\n// another\n")
    assert programs.home("cyclonus") != before


def test_without_go_it_says_what_to_do(empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(programs.NotBuilt, match=r"install Go 1\.26\.0 or later, or point ALLOT_CONTROLPLANE at"):
        programs.build(["etcd"])
    with pytest.raises(programs.NotBuilt, match=r"install Go 1\.26\.2 or later and a C compiler"):
        programs.build(["gitea"])


@pytest.mark.parametrize("ending", ["exit 3", "kill -9 $$"])
def test_a_build_that_fails_leaves_nothing_behind(
    ending: str, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Go, since the real one fails only when the network or the disk does."""
    module = tmp_path / "module"
    module.mkdir()
    executable(
        tmp_path / "bin" / "go",
        f"""#!/bin/sh
[ "$1 $2" = "mod download" ] && echo '{{"Dir": "{module}", "Sum": "h1:x"}}' && exit 0
touch half; {ending}
""",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(programs, "MODULES", _copied_pins(tmp_path))
    with pytest.raises(programs.NotBuilt, match=r"go build go\.etcd\.io/etcd/server/v3` ended with"):
        programs.build(["etcd"])
    assert list(empty_cache.iterdir()) == []


def _copied_pins(folder: Path) -> Path:
    target = folder / "modules"
    (target / "etcd").mkdir(parents=True)
    for name in ("go.mod", "go.sum"):
        (target / "etcd" / name).write_bytes((programs.MODULES / "etcd" / name).read_bytes())
    return target


def test_a_module_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    executable(tmp_path / "bin" / "go", """#!/bin/sh\necho '{"Dir": "/nowhere", "Sum": "h1:other"}'\n""")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(programs.NotBuilt, match=r"checksum h1:other, and h1:.* is pinned: don't use it"):
        crds.build()
    assert not crds.home().exists()


def test_the_only_go_code_of_ours_calls_a_library_and_every_sum_is_committed() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=programs.MODULES,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert [path for path in tracked if path.endswith(".go")] == ["cyclonus/main.go"]
    for tool in [*programs.TOOLS, *programs.NODE, *programs.REFERENCES, *programs.PEERS]:
        pins = programs.folder(tool).name
        assert {f"{pins}/go.mod", f"{pins}/go.sum"} <= set(tracked)
