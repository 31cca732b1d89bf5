"""Every row of docs/guides/verbs.md has a command that works in the sample, or says "not yet"."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from tests.conftest import PROJECT, Allot
from tests.support.published import Place, git

from allotment.cli.main import allot as program

PAGE = (PROJECT / "docs/guides/verbs.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<verbs>.+?) \| (?P<answer>.+) \|$", re.MULTILINE)
EXAMPLE = re.compile(r"`(allot [^`]+)`")
NOT_YET = re.compile(r"\b(?:not|no declaration) yet\b")
HEADINGS = ("Verb", "`allot …`", "---")

# The names of the sample for the placeholders of the page. The first pattern that matches a word has the name.
NAMES = [
    (r"(?<=create )TENANT/NAME", "solo-ada/more-files"),
    (r"(?<=storage clone )TENANT/(?:NAME|STORAGE)", "solo-ada/styles"),
    (r"(?<=storage grow )TENANT/NAME", "solo-ada/models"),
    (r"(?<=storage delete )TENANT/NAME", "solo-ada/models"),
    (r"(?<=--gpu-spec )GPU_SPEC", "l4-quarter"),
    (r"(?<=--app )APP", "jupyter"),
    (r"\bNEW\b", "models-copy"),
    (r"(?<=instance/)TENANT/NAME(?= (?:gpuSpec|replicas|app\.version)=)", "studio-kite/webui"),
    (r"(?<=storage/)TENANT/NAME(?= accessor)", "studio-kite/outputs"),
    (r"(?<=storage/)TENANT/NAME", "solo-ada/models"),
    (r"(?<=storage show )TENANT/NAME", "solo-ada/models"),
    (r"(?<=secret show )TENANT/NAME", "ml-orbit/huggingface"),
    (r"(?<=recover )TENANT/NAME", "solo-ada/styles"),
    (r"(?<=stock add )CLUSTER/NAME", "eu-1/l4-whole-more"),
    (r"(?<=--spec )NAME", "l4-whole"),
    (r"(?<=spec retire )NAME", "l4-half"),
    (r"(?<=spec deprecate )NAME", "l4-half"),
    (r"(?<=member add TENANT )USER", "ben"),
    (r"TENANT/STORAGE", "solo-ada/models"),
    (r"TENANT/(?:NAME|INSTANCE)", "solo-ada/webui"),
    (r"OTHER_TENANT", "uni-lab"),
    (r"\bPLAN\b", "team"),
    (r"NODE", "eu-1-l4-2"),
    (r"TENANT", "solo-ada"),
    (r"CLUSTER", "eu-1"),
    (r"\bNODE\b", "gpu-l4-03"),
    (r"\bPOOL\b", "l4-ts4"),
    (r"USER", "ada"),
    (r"LOGIN", "ada-k"),
    (r"GPU_SPEC", "l4-whole"),
    (r"COUNT", "2"),
    (r"VERSION", "1.11.0"),
    (r"TEXT", "retry"),
    (r"FILE", "model.safetensors"),
    (r"STORAGE", "styles"),
    (r"(?:ssh-ed25519 )?\bKEY\b", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFP1kA1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"),
    (r"KIND/NAME FIELD=VALUE", "instance/solo-ada/webui displayName=UI"),
]
# A command has an effect in the sample only after another change.
PREPARATIONS = {
    "access+=SSH": ("instance/solo-ada/webui", "access-"),
    "sharedWith.uni-lab-": ("storage/solo-ada/models", "sharedWith+={tenant: uni-lab}"),
    "role=Member": ("Members/solo-ada", "users+={name: zoe, role: Admin}"),
    "instance unmount": ("instance/solo-ada/webui", "storages+={name: styles, mountPath: /styles}"),
    "instance start": ("instance/solo-ada/webui", "state=Stopped"),
    "deletionPolicy-": ("storage/solo-ada/models", "deletionPolicy=Delete"),
    "instance release": ("instance/solo-ada/webui", "hold={reason: It sends spam.}"),
    "tenant resume": ("Tenant/solo-ada", "lifecycle=Suspended"),
    "spec activate": ("GPUSpec/l4-half", "lifecycle=Deprecated"),
}
# These need a cluster, an identity provider or a file, or never end: `--help` checks their names and options.
NOT_RUN = (
    "bootstrap",
    "exec",
    "login",
    "logs",
    "month",
    "portal serve",
    "publish",
    "recover",
    "run",
    "storage cp",
    "storage recover",
    "wait",
    "status --watch",
)


def list_rows() -> list[tuple[str, str]]:
    """Return the verbs and the answer of each row of the tables."""
    return [(row["verbs"], row["answer"]) for row in ROW.finditer(PAGE) if row["verbs"] not in HEADINGS]


def list_examples() -> list[str]:
    """Return the commands of all rows, each once."""
    return list(dict.fromkeys(text for _, answer in list_rows() for text in EXAMPLE.findall(answer)))


def fill_in(text: str) -> str:
    """Return a command with names of the sample."""
    for pattern, name in NAMES:
        text = re.sub(pattern, name, text)
    return text


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that some words call, and its arguments."""
    command: click.Command = program
    while words and isinstance(command, click.Group):
        subcommand = command.get_command(click.Context(command), words[0])
        assert subcommand is not None, f"there is no command {words[0]}"
        command, words = subcommand, words[1:]
    return command, words


def test_every_row_has_an_example_or_says_that_there_is_none() -> None:
    rows = list_rows()
    assert len(rows) > 80
    assert [verbs for verbs, answer in rows if not EXAMPLE.search(answer) and not NOT_YET.search(answer)] == []


@pytest.mark.parametrize("text", list_examples())
def test_an_example_works_in_the_sample(
    text: str, published: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(fill_in(text))[1:]
    assert not re.search(r"\b[A-Z_]{4,}\b", re.sub("ssh-ed25519 .*", "", " ".join(words))), "a placeholder has no name"
    command, arguments = find_command(words)
    required = [
        parameter for parameter in command.params if isinstance(parameter, click.Argument) and parameter.required
    ]
    is_mention = (required or isinstance(command, click.Group)) and not arguments
    if is_mention or " ".join(words).startswith(NOT_RUN):
        words.append("--help")
    elif any("--dry-run" in parameter.opts for parameter in command.params):
        words.append("--dry-run")
    monkeypatch.chdir(published.root)
    for part, preparation in PREPARATIONS.items():
        if part in " ".join(words):
            assert allot("set", *preparation, "--commit").code == 0
    result = allot(*words)
    assert result.code == 0, result
    assert "nothing changes: the declarations have" not in result.out
    assert git(published.root, "status", "--short", "--", "platform", "clusters", "tenants") == ""


def test_a_row_without_an_example_is_reported() -> None:
    rows = "| fly | write a file |\n| swim | not yet |\n| run | `allot status` |\n"
    answers = {row["verbs"]: row["answer"] for row in ROW.finditer(rows)}
    assert [verb for verb, answer in answers.items() if not EXAMPLE.search(answer) and not NOT_YET.search(answer)] == [
        "fly"
    ]
