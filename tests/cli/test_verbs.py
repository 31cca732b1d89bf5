"""A verb of another command line is answered with the command or the line of YAML that does it."""

from __future__ import annotations

import re

import pytest
from tests.conftest import PROJECT, Allot

from allotment.cli.main import COMMANDS
from allotment.cli.storage import command as storage
from allotment.cli.verbs import HINTS_BY_VERB, OPTION_HINTS, VERB_HINTS

ROW = re.compile(r"\| (`[a-z -]+`(?:, `[a-z -]+`)*) \| (.*) \|")
EXPECTED = (
    "log ssh stop start restart delete costs new create apply ps get list open logout rm share snapshot restore clone"
    " mount attach grow resize upload download cp connect port-forward kill launch budget invoice users whoami watch invite push"
    " scale suspend image templates schedule autostop cron nodes drain clusters backup upgrade job train queue"
)


@pytest.mark.parametrize("verb", sorted({*HINTS_BY_VERB, *EXPECTED.split()}))
def test_a_verb_is_answered(verb: str, allot: Allot) -> None:
    result = allot(*verb.split(), "solo-ada/webui", "--follow")
    assert (result.code, result.out) == (2, "")
    *group, name = verb.split()
    problem = f"allot {group[0]} has no command '{name}'" if group else f"no command is named '{name}'"
    assert result.err.splitlines()[-1] == f"Error: {problem}: {HINTS_BY_VERB[verb]}"


def test_answers_name_commands_that_exist() -> None:
    named = {name for answer in HINTS_BY_VERB.values() for name in re.findall(r"`allot ([a-z-]+)", answer)}
    assert named
    assert named <= COMMANDS.keys()


def test_no_verb_is_a_command() -> None:
    assert HINTS_BY_VERB.keys() & COMMANDS.keys() == set()
    assert len(HINTS_BY_VERB) == sum(map(len, VERB_HINTS)), "no verb has two answers"


def test_the_guide_has_the_same_table() -> None:
    page = (PROJECT / "docs/guides/verbs.md").read_text(encoding="utf-8")
    rows = ROW.findall(page.partition("## Verbs of other command lines")[2])
    assert {tuple(re.findall(r"`([a-z -]+)`", verbs)): answer for verbs, answer in rows} == VERB_HINTS


def test_a_verb_below_a_kind_is_answered_too(allot: Allot) -> None:
    result = allot("instance", "resize", "solo-ada/webui")
    assert result.code == 2
    assert result.err.splitlines()[-1] == f"Error: allot instance has no command 'resize': {HINTS_BY_VERB['resize']}"
    result = allot("storage", "unshare", "solo-ada/models")
    assert result.err.splitlines()[-1] == f"Error: allot storage has no command 'unshare': {HINTS_BY_VERB['unshare']}"
    result = allot("storage", "creat", "solo-ada/more")
    assert result.err.splitlines()[-1] == "Error: allot storage has no command 'creat'; did you mean 'create'?"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("add member solo-ada", "no command is named 'add'; did you mean 'allot member add'?"),
        ("clone storage solo-ada/models", "no command is named 'clone'; did you mean 'allot storage clone'?"),
        ("resize storage solo-ada/models", f"no command is named 'resize': {HINTS_BY_VERB['storage resize']}"),
        ("instance logs solo-ada/webui", "allot instance has no command 'logs'; did you mean 'allot logs'?"),
        ("instance exec solo-ada/webui", "allot instance has no command 'exec'; did you mean 'allot exec'?"),
    ],
)
def test_a_command_in_another_order_is_answered(words: str, expected: str, allot: Allot) -> None:
    result = allot(*words.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == f"Error: {expected}"


def test_an_unknown_subcommand_lists_all_subcommands(allot: Allot) -> None:
    expected = ", ".join(sorted(storage.commands))
    error = allot("storage", "zzz").err.splitlines()[-1]
    assert error == f"Error: allot storage has no command 'zzz'; known: {expected}"


@pytest.mark.parametrize(("command", "option"), sorted(OPTION_HINTS))
def test_an_option_of_other_programs_is_answered(command: str, option: str, allot: Allot) -> None:
    verb = {"instance": "stop", "storage": "snapshot", "secret": "create"}[command]
    result = allot(command, verb, "solo-ada/webui", option, "18:00")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == f"Error: No such option '{option}': {OPTION_HINTS[command, option]}"


def test_another_unknown_option_names_similar_options(allot: Allot) -> None:
    result = allot("instance", "stop", "solo-ada/webui", "--comit")
    assert "No such option '--comit'" in result.err
    assert "--commit" in result.err
