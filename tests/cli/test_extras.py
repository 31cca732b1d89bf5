"""Without the extras, the commands of tenants work, and every other command names the extra that it needs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from tests.conftest import DAY, PROJECT
from tests.support.published import git

from allotment.cli.extras import EXTRAS, explain_missing_module

WITHOUT_EXTRAS = """\
import os, sys
from allotment.cli.extras import EXTRAS

MISSING = {module for module, extra in EXTRAS.items() if extra != os.environ.get("INSTALLED_EXTRA")}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from allotment.cli.main import main
main()
"""
INSTALLED_BYTES = 60_000_000  # the limit of an installation without extras, with its compiled modules
DISTRIBUTIONS = {"github": "pygithub", "gitlab": "python-gitlab", "websocket": "websocket-client"}


def run_without_extras(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `allot` in a process that can import no module of an extra, except for those of INSTALLED_EXTRA."""
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *words]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(sample: Path) -> Path:
    """Return a clone with two commits, the second of which is not pushed."""
    git(sample, "init", "-q", "-b", "main")
    git(sample, "add", "-A")
    git(sample, "commit", "-q", "-m", "Begin")
    git(sample, "clone", "-q", "--bare", str(sample), str(sample.parent / "origin.git"))
    git(sample, "remote", "add", "origin", str(sample.parent / "origin.git"))
    file = sample / "tenants/uni-lab/instances/group-a.yaml"
    file.write_text(file.read_text().replace("state: Running", "state: Stopped"))
    git(sample, "commit", "-q", "-a", "-m", "Stop")
    return sample


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("validate --base origin/main", "7 tenants: fine"),
        ("fmt --check", ""),
        ("render --out {folder}/rendered", ""),
        (f"plan --as-of {DAY}", "uni-lab"),
        ("instance list", "uni-lab/group-a"),
        (f"publish --dry-run --commit origin/main --as-of {DAY}", "rendered/eu-1"),
        ("instance start uni-lab/group-a --dry-run", "1 file would change"),
    ],
)
def test_the_commands_of_tenants_need_no_extra(words: str, output: str, clone: Path) -> None:
    git(clone, "fetch", "-q", "origin")
    process = run_without_extras(clone, *words.format(folder=clone.parent).split())
    assert process.returncode == 0, process.stderr
    assert output in process.stdout + process.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        ("doctor --cluster eu-1", "kubernetes", "cluster"),
        ("lsp", "lsprotocol", "editor"),
        ("bill --month 2026-10 --output html", "jinja2", "portal"),
        ("portal build --out {folder}/site", "markupsafe", "portal"),
        ("report --cluster eu-1 --once --to {folder}/origin.git --data {folder}/data", "kubernetes", "cluster"),
        ("comment --number 3", "github", "forges"),
        ("exec solo-ada/webui --argocd -- true", "websocket", "access"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(words: str, module: str, extra: str, clone: Path) -> None:
    token = {"ALLOT_FORGE_TOKEN": "t0ken"} if extra == "forges" else {}
    process = run_without_extras(clone, *words.format(folder=clone.parent).split(), **token)
    assert process.returncode == 2, process.stderr
    assert process.stderr.splitlines()[-1] == (
        f"allot: this needs the Python module {module}, which is not installed: install Allotment as allotment[{extra}], or"
        " as allotment[all] for every command"
    )


@pytest.mark.process
def test_argocd_is_reached_without_the_client_of_kubernetes(clone: Path) -> None:
    words = ("exec", "solo-ada/webui", "--argocd", "--", "true")
    process = run_without_extras(clone, *words, INSTALLED_EXTRA="access")
    assert process.returncode == 2, process.stderr
    assert "there is no login at Argo CD" in process.stderr


def test_any_other_missing_module_is_a_bug() -> None:
    assert explain_missing_module(ModuleNotFoundError("No module named 'allotment.x'", name="allotment.x")) is None


def test_the_extras_install_the_modules() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["all"] == [f"allotment[{','.join(sorted(extras.keys() - {'all', 'dev'}))}]"]
    for module, extra in EXTRAS.items():
        assert importlib.util.find_spec(module), module
        assert any(line.startswith(DISTRIBUTIONS.get(module, module)) for line in extras[extra]), module
    lines = {line for extra in extras.keys() - {"all", "dev"} for line in extras[extra]}
    assert {line.partition(">")[0] for line in lines if "[" not in line} == {
        DISTRIBUTIONS.get(module, module) for module in EXTRAS
    }


@pytest.mark.install
def test_an_installation_without_extras_is_small(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(PROJECT)]
    process = subprocess.run(install, capture_output=True, text=True, check=False)
    if "No matching distribution" in process.stderr:
        pytest.skip("pip installs packages from a package registry, and none answers here")
    assert process.returncode == 0, process.stderr
    (packages,) = {path.parent for path in (tmp_path / "venv").rglob("site-packages/allotment")}
    names = {path.name for path in packages.iterdir()}
    assert "click" in names
    assert not names & EXTRAS.keys()
    files = [path for path in packages.rglob("*") if path.is_file() and path.relative_to(packages).parts[0] != "pip"]
    assert sum(path.stat().st_size for path in files) < INSTALLED_BYTES
