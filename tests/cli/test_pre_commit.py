"""The hooks that we ship and those of `allot init`, run by pre-commit itself, installed as it installs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import PROJECT, Allot, edit
from tests.support.folder_commit import commit
from tests.support.new_repository import sample as sample_of


def hook(name: str, root: Path, home: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "pre_commit", "try-repo", str(PROJECT), name, "--files", *paths]
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    process = subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if "No matching distribution" in process.stdout or "Could not find a version" in process.stdout:
        pytest.skip("pre-commit installs hooks from a package registry, and none answers here")
    return process


@pytest.mark.install
def test_the_hooks_work(sample: Path, tmp_path: Path) -> None:
    commit(sample)
    home = tmp_path / "home"
    webui, outputs = "tenants/solo-ada/instances/webui.yaml", "tenants/studio-kite/storages/outputs.yaml"
    fine = hook("allot-validate", sample, home, webui)
    assert (fine.returncode, "Passed" in fine.stdout) == (0, True), fine.stdout + fine.stderr
    edit(sample, webui, "l4-quarter", "l4-quater")
    edit(sample, outputs, "size: 500Gi", "size: 100Gi")
    wrong = hook("allot-validate", sample, home, webui)
    assert wrong.returncode == 1
    assert (
        f"{webui}:8:12: spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'? [reference]"
        in wrong.stdout
    )
    assert outputs not in wrong.stdout
    shrunk = hook("allot-validate", sample, home, outputs)
    assert "100Gi is less than the current 500Gi" in shrunk.stdout
    edit(sample, "tenants/uni-lab/tenant.yaml", "  plan: team", "  plan:  'team'")
    assert hook("allot-fmt", sample, home, "tenants/uni-lab/tenant.yaml").returncode == 1
    assert "  plan: team\n" in (sample / "tenants/uni-lab/tenant.yaml").read_text()


@pytest.mark.process
def test_the_hooks_that_init_writes_install_nothing_and_run_the_program_on_the_path(
    allot: Allot, tmp_path: Path
) -> None:
    root, webui = tmp_path / "gpus", "tenants/solo-ada/instances/webui.yaml"
    sample_of(allot, root)
    commit(root)
    edit(root, webui, "l4-quarter", "l4-quater")
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
    }
    run = [sys.executable, "-m", "pre_commit", "run", "--files", webui]
    process = subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == 1, process.stdout + process.stderr
    assert "no GPUSpec is named 'l4-quater'" in process.stdout
    assert "Installing environment" not in process.stdout + process.stderr
    assert not list((tmp_path / "home").glob("repo*"))
