"""A new kind, field and forge take the edits that CONTRIBUTING.md lists: the tests make them in a copy of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allotment.manifests.yaml_text import load
from tests.conftest import DAY, PROJECT, edit
from tests.new_kind import main
from tests.support.new_repository import CLOUD, COMMIT, URL
from tests.support.published import git

PROGRAM = "renderers/allotment"
SCOPES = {"DemoBanner": "platform", "DemoWindow": "cluster", "DemoNotice": "tenant"}
MESSAGE = {"message": "Maintenance on Sunday."}
STORAGE = "tenants/solo-ada/storages/models.yaml"
GUARDS = (  # the tests that every kind must pass
    "tests/declared/test_layout.py",
    "tests/declared/test_tenant_resources.py",
    "tests/declared/test_references.py",
    "tests/declared/test_fuzz.py::test_every_kind_has_a_file_in_the_sample",
    "tests/cli/test_contract.py",
    "tests/cli/test_validate.py",
    "tests/rules/test_rules.py",
    "tests/test_names.py",
)


class Checkout:
    """A copy of the tracked files of this repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in git(PROJECT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
            if (PROJECT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, root / name)

    def run(self, *words: object, code: int = 0, **variables: str) -> str:
        """Run a module of the copy, and return its output. Fail the test if its exit status is another."""
        environment = os.environ | {"PYTHONPATH": f"{self.root}/renderers"} | variables
        command = [sys.executable, "-m", *map(str, words)]
        result = subprocess.run(
            command, cwd=self.root, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert result.returncode == code, result.stdout
        return result.stdout

    def render(self) -> dict[str, list[dict[str, Any]]]:
        """Return the objects that the isolation gate passes, by the path of their file."""
        out = self.root / "out"
        self.run("allotment", "render", "--out", out, "--as-of", DAY)
        return {path.relative_to(out).as_posix(): load(path.read_bytes()) for path in out.rglob("*.yaml")}

    def read_program(self) -> dict[str, str]:
        """Return the text of each file of the program and of the navigation."""
        paths = [path for path in (self.root / PROGRAM).rglob("*") if path.suffix in (".py", ".yaml")]
        return {
            path.relative_to(self.root).as_posix(): path.read_text("utf-8")
            for path in (*paths, self.root / "zensical.toml")
        }


class Kinds(NamedTuple):
    """A checkout with three new kinds, the program files that each kind changed, and the rendered objects."""

    checkout: Checkout
    changed: dict[str, set[str]]
    objects: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    """Write a kind of each scope into a checkout, and render its sample."""
    checkout, changed = Checkout(tmp_path_factory.mktemp("kinds")), {}
    for name, scope in SCOPES.items():
        earlier = checkout.read_program()
        assert "make golden" in checkout.run("tests.new_kind", name, "--scope", scope)
        changed[name] = {path for path, text in checkout.read_program().items() if earlier.get(path) != text}
    return Kinds(checkout, changed, checkout.render())


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a checkout to edit."""
    return Checkout(tmp_path / "checkout")


def read_places(heading: str) -> list[str]:
    """Return the text before the colon of each numbered item below a heading of CONTRIBUTING.md."""
    section = (PROJECT / "CONTRIBUTING.md").read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. (.+?):", section, re.MULTILINE)


def resolve_place(place: str, module: str, part: str = "") -> str:
    """Return the path that an item names; of two paths, that of a part of the manifests."""
    paths = [path.replace("<kind>", module).replace("<forge>", module) for path in re.findall(r"`(.+?)`", place)]
    path = next((path for path in paths if f"/{part}/" in path), paths[0])
    return path if path.endswith(".toml") else f"{PROGRAM}/{path}"


@pytest.mark.process
@pytest.mark.parametrize(("name", "edits"), [("DemoBanner", 5), ("DemoWindow", 5), ("DemoNotice", 8)])
def test_a_kind_changes_the_places_that_contributing_lists(kinds: Kinds, name: str, edits: int) -> None:
    places, part = read_places("A new kind"), "tenant" if SCOPES[name] == "tenant" else "cluster"
    assert len(places) == 8
    module = "_".join(re.findall("[A-Z][a-z]+", name)).lower()
    assert kinds.changed[name] == {resolve_place(place, module, part) for place in places[:edits]}


@pytest.mark.process
def test_commands_accept_new_kinds(kinds: Kinds) -> None:
    checkout = kinds.checkout
    written = checkout.run("allotment", "schema")
    assert all(f"schemas/{name}.schema.json: written" in written for name in SCOPES)
    assert ": fine" in checkout.run("allotment", "validate", "--as-of", DAY)
    assert "platform/demo-banners/{name}.yaml" in checkout.run("allotment", "explain")
    assert "message: Maintenance on Sunday." in checkout.run("allotment", "explain", "DemoBanner")
    checkout.run("allotment", "fmt", "--check")


@pytest.mark.process
def test_the_gate_passes_the_config_map_of_each_new_kind(kinds: Kinds) -> None:
    files = {
        path: objects for path, objects in kinds.objects.items() if path.rpartition("/")[2].startswith("example--demo-")
    }
    assert files.keys() == {
        "eu-1/platform/cluster/example--demo-banner.rendered.yaml",
        "us-1/platform/cluster/example--demo-banner.rendered.yaml",
        "eu-1/platform/cluster/example--demo-window.rendered.yaml",
        "eu-1/tenants/solo-ada/compute/example--demo-notice.rendered.yaml",
    }
    assert all(manifest["data"] == MESSAGE for objects in files.values() for manifest in objects)


@pytest.mark.process
def test_the_gate_refuses_the_config_map_of_a_tenant_without_its_pattern(checkout: Checkout) -> None:
    checkout.run("tests.new_kind", "DemoNote", "--scope", "tenant")
    edit(checkout.root, f"{PROGRAM}/isolation/allowed/tenant.yaml", "data: {message: <a-text>}", "data: {}")
    output = checkout.run("allotment", "render", "--out", checkout.root / "out", "--as-of", DAY, code=1)
    assert "eu-1/tenants/solo-ada/compute/example--demo-note.rendered.yaml: data.message is " in output


@pytest.mark.process
def test_new_kinds_pass_the_tests_of_every_kind(kinds: Kinds) -> None:
    checkout = kinds.checkout
    own_tests = ["tests/manifests/cluster/test_demo_banner.py", "tests/manifests/tenant/test_demo_notice.py"]
    bad_files = [
        f"tests/declared/test_bad_files.py::test_bad_file_says_exactly_what_is_wrong[{name}-message]" for name in SCOPES
    ]
    options = ("-q", "-n", "0", "-p", "no:cacheprovider")
    checkout.run("pytest", *options, *bad_files, *own_tests, *GUARDS, GOLDEN="write")
    finding = (checkout.root / "tests/declared/bad/DemoNotice-message.txt").read_text("utf-8")
    assert finding.startswith("tenants/acme/demo-notices/example.yaml:7:12: spec.message: ")
    checkout.run("ruff", "check", "--quiet", "renderers", "tests/manifests")
    checkout.run("ruff", "format", "--check", "--quiet", "renderers", "tests/manifests")


@pytest.mark.process
def test_a_field_takes_four_edits(checkout: Checkout) -> None:
    places = [resolve_place(place, "gpu_storage") for place in read_places("A new field")]
    model, manifest, patterns, policy = places
    field = '    demo_note: Annotated[str, Field(max_length=100)] | None = Field(default=None, description="A note.")\n'
    claim = "    claim_metadata = _build_protected_metadata(declared, metadata)\n"
    note = 'claim_metadata["annotations"][names.label_of("demo-note")] = storage.spec.demo_note'
    volume = "spec:\n  accessModes: [<an-access-mode>]\n"
    edit(checkout.root, model, "    size: Size = Field(", f"{field}    size: Size = Field(")
    edit(checkout.root, manifest, claim, f"{claim}    if storage.spec.demo_note:\n        {note}\n")
    edit(checkout.root, patterns, volume, f"    allotment.dev/demo-note*: <a-text>\n{volume}")
    edit(
        checkout.root,
        policy,
        "        names.EXTERNAL_LINK,\n",
        '        names.EXTERNAL_LINK,\n        names.label_of("demo-note"),\n',
    )
    edit(checkout.root, STORAGE, "spec:\n", "spec:\n  demoNote: For the weekly demo.\n")
    volumes = checkout.render()["eu-1/tenants/solo-ada/storage/models.rendered.yaml"]
    assert volumes[0]["kind"] == "PersistentVolumeClaim"
    assert volumes[0]["metadata"]["annotations"]["allotment.dev/demo-note"] == "For the weekly demo."


@pytest.mark.process
def test_a_forge_takes_three_edits(checkout: Checkout, tmp_path: Path) -> None:
    module, row, model = (resolve_place(place, "hostea") for place in read_places("A new forge"))
    (checkout.root / module).write_text("from allotment.adapters.forge.gitea import connect\n\n__all__ = ['connect']\n")
    workflow = ".hostea/workflows/allot.yaml"
    forge = f'    "Hostea": _GITEA._replace(module="hostea", workflow="{workflow}"),\n'
    edit(checkout.root, row, '    "Forgejo": ', f'{forge}    "Forgejo": ')
    edit(checkout.root, model, '"Forgejo"]', '"Forgejo", "Hostea"]')
    edit(checkout.root, "platform/platform.yaml", "forge: GitHub", "forge: Hostea")
    assert ": fine" in checkout.run("allotment", "validate", "--as-of", DAY)
    folder = tmp_path / "gpus"
    checkout.run("allotment", "init", folder, "--forge", "Hostea", "--url", URL, "--program", COMMIT, *CLOUD)
    assert (folder / workflow).is_file()
    assert "8 files of 0 tenants: fine" in checkout.run("allotment", "validate", "--repo", folder, "--as-of", DAY)
    checkout.run("allotment.adapters.forge.hostea")


@pytest.mark.parametrize("name", ["banner", "BANNER", "My-Kind", "Tag_Set", "Ünit", ""])
def test_a_name_that_is_not_camel_case_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([name])
    assert f"the name {name!r} is not in CamelCase" in capsys.readouterr().err


def test_a_kind_that_exists_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    with pytest.raises(SystemExit, match=re.escape(f"{PROGRAM}/declared/kinds/stock.py exists already")):
        main(["Stock", "--scope", "cluster"])


def test_a_missing_anchor_is_reported_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"kinds/__init__\.py has no match of .*run this in a checkout"):
        main(["DemoBanner"])
    assert list(tmp_path.iterdir()) == []
