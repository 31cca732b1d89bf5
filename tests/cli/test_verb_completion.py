"""A shell completes the names that the commands of the platform team take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from allotment.cli.main import allot as program


@pytest.mark.parametrize(
    ("words", "incomplete", "names"),
    [
        (("tenant", "suspend"), "s", ["solo-ada", "studio-kite"]),
        (("tenant", "create", "blue-fox", "--plan"), "", ["enterprise", "starter", "team"]),
        (("member", "add"), "solo", ["solo-ada"]),
        (("request", "spec"), "studio", ["studio-kite"]),
        (("request", "spec", "studio-kite"), "h100", ["h100-eight", "h100-one"]),
        (("secret", "show"), "ml-", ["ml-orbit/huggingface"]),
        (("secret", "create"), "uni", ["uni-lab"]),
        (("secret", "create", "uni-lab/token", "--cluster"), "", ["eu-1", "us-1"]),
        (("member", "remove", "solo-ada"), "", ["ada"]),
        (("member", "remove", "--group", "studio-kite"), "kite-c", ["kite-clients"]),
        (("member", "remove", "nope"), "", []),
        (("instance", "mount", "solo-ada/webui"), "", ["models", "styles"]),
        (("instance", "unmount", "solo-ada/webui"), "s", ["styles"]),
        (("spec", "price"), "l4-", ["l4-half", "l4-quarter", "l4-whole"]),
        (("spec", "retire", "l4-half"), "l40", ["l40s-spot"]),
        (("pool", "add"), "", ["eu-1", "us-1"]),
        (("tenant", "create", "--from", "tenants.csv", "--plan"), "s", ["starter"]),
        (("stock", "remove"), "us", ["us-1/h100-eight", "us-1/h100-one", "us-1/l40s-spot"]),
        (("stock", "add", "us-1/h100-more", "--node-pool"), "l4", ["l4-ts2-film", "l4-ts4", "l4-whole", "l40s-spot"]),
        (("stock", "add", "us-1/h100-more", "--spec"), "h", ["h100-eight", "h100-one"]),
        (("member", "add", "solo-ada", "ben", "--role"), "", ["Admin", "Member", "Viewer"]),
    ],
)
def test_names_are_completed(
    words: tuple[str, ...], incomplete: str, names: list[str], sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sample)
    completer = ShellComplete(program, {}, "allot", "_ALLOT_COMPLETE")
    assert [item.value for item in completer.get_completions([*words], incomplete)] == names


def test_completion_reads_no_link(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a device never ends."""
    monkeypatch.chdir(sample)
    members = sample / "tenants/solo-ada/members.yaml"
    members.rename(sample / "members.yaml")
    members.symlink_to("../../members.yaml")
    completer = ShellComplete(program, {}, "allot", "_ALLOT_COMPLETE")
    assert completer.get_completions(["member", "remove", "solo-ada"], "") == []


HOSTILE = (
    "webui$(id>PWN)",
    "a b",
    "a;id",
    "`id`",
    "a'b",
    'a"b',
    "a\nb",
    "-rf",
    "~root",
    "a*",
    "!1",
    "a\\b",
    "a&b",
    "a|b",
)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("logs",),
        ("instance", "stop"),
        ("storage", "cp"),
        ("instance", "list", "--tenant"),
        ("instance", "list", "--cluster"),
        ("spec", "price"),
        ("app", "deprecate"),
        ("secret", "show"),
        ("pool", "add"),
        ("stock", "remove"),
        ("stock", "add", "us-1/h100-more", "--node-pool"),
        ("tenant", "create", "blue-fox", "--plan"),
        ("member", "remove", "solo-ada"),
    ],
)
def test_a_strangers_file_name_is_not_offered(
    words: tuple[str, ...], sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = (
        *(f"tenants/solo-ada/{name}" for name in ("instances", "storages", "snapshots", "secrets")),
        *(f"platform/{name}" for name in ("specs", "apps", "plans", "add-ons")),
        *(f"clusters/eu-1/{name}" for name in ("stocks", "node-pools")),
    )
    for folder in folders:
        (sample / folder).mkdir(exist_ok=True)
        for name in HOSTILE:
            (sample / folder / f"{name}.yaml").touch()
    for name in HOSTILE:
        for folder in ("tenants", "clusters"):
            (sample / folder / name / "instances").mkdir(parents=True)
            (sample / folder / name / "instances/webui.yaml").touch()
    names = "".join(f"    - {{name: {json.dumps(name)}, role: Member}}\n" for name in (*HOSTILE, "ada"))
    (sample / "tenants/solo-ada/members.yaml").write_text(f"spec:\n  users:\n{names}")
    monkeypatch.chdir(sample)
    completer = ShellComplete(program, {}, "allot", "_ALLOT_COMPLETE")
    offered = [
        item.value
        for incomplete in ("", "solo-ada/", "eu-1/", "webui", "a")
        for item in completer.get_completions([*words], incomplete)
        if item.type == "plain"
    ]
    assert offered
    assert [name for name in offered if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]*", name)] == []
