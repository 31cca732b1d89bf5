"""Each option and argument of the commands that edit declarations: a bad value is one error line, and changes nothing."""

from __future__ import annotations

import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.conftest import Allot, copy_sample
from tests.support.published import git

from allotment.cli.change_options import change_options
from allotment.cli.edit_commands.instance_targets import target_options
from allotment.cli.main import COMMANDS
from allotment.cli.main import allot as root_command

CASES_FILE = Path(__file__).with_name("bad_options.txt")
SHORT = {"<hash>": "a" * 64, "<long>": "x" * 101}  # stand for values that would make a line too long
FREE_TEXTS = {"--description", "--arg", "--evidence"}  # accept any text
LOCATIONS = {"-C", "--repo"}


def read_cases() -> list[tuple[str, str]]:
    """Return the command lines and their errors. An error is in the line after its command line, and is indented."""
    lines = CASES_FILE.read_text(encoding="utf-8").splitlines()
    return [(command, error.strip()) for command, error in zip(lines[::2], lines[1::2], strict=True)]


CASES = read_cases()


def expand(text: str) -> str:
    for short, value in SHORT.items():
        text = text.replace(short, value)
    return text


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_sample(tmp_path_factory.mktemp("bad-options") / "repo")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "--all")
    git(root, "-c", "user.name=Ada", "-c", "user.email=ada@northlight.example", "commit", "-q", "-m", "Sample")
    return root


@pytest.mark.parametrize(("command", "error"), CASES, ids=[command for command, _ in CASES])
def test_a_bad_value_is_one_error_line_and_changes_nothing(
    command: str, error: str, repository: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    result = allot(*shlex.split(expand(command)))
    assert (result.code, result.out) == (2, "")
    error_lines = [line for line in result.err.splitlines() if not line.startswith(("Usage: ", "Try ")) and line]
    assert error_lines == [expand(error)]
    changed = subprocess.run(["git", "status", "--short"], cwd=repository, check=True, capture_output=True, text=True)
    assert changed.stdout == ""


def edit_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the words and the command of each command that edits declarations."""
    for name in COMMANDS:
        command = root_command.get_command(click.Context(root_command), name)
        assert command is not None
        for words, each in [
            (name, command),
            *((f"{name} {word}", sub) for word, sub in getattr(command, "commands", {}).items()),
        ]:
            if any(parameter.name == "is_dry_run" for parameter in each.params):
                yield words, each


def option_names(command: click.Command) -> set[str]:
    """Return the options of a command that have a value."""
    options = [each for each in command.params if isinstance(each, click.Option) and not each.is_flag]
    return {next((name for name in option.opts if name.startswith("--")), option.opts[0]) for option in options}


@click.command()
@change_options
def change_options_alone(**values: object) -> None:
    """A command with the options that all commands that edit declarations have."""


@click.command()
@target_options
def target_options_alone(**values: object) -> None:
    """A command with the options that select instances."""


def test_each_option_has_a_bad_value() -> None:
    common, selectors = option_names(change_options_alone), option_names(target_options_alone)
    missing = []
    for name, command in edit_commands():
        options = option_names(command) - common
        if options >= selectors and name != "instance stop":  # the selectors of all these commands are the same
            options -= selectors
        missing += [
            f"{name} {option}"
            for option in sorted(options - FREE_TEXTS - LOCATIONS)
            if not has_rare_value(name, option)
        ]
    assert [
        *missing,
        *(option for option in sorted(common - LOCATIONS) if not has_rare_value("instance create", option)),
    ] == []


def has_rare_value(name: str, option: str) -> bool:
    """Return whether an option has a value that occurs only once: valid values occur in many command lines."""
    cases = words_of_cases(name)
    counts = Counter(words[words.index(option) + 1] for words in cases if option in words)
    return 1 in counts.values()


@pytest.mark.parametrize("name", [name for name, _ in edit_commands()])
def test_each_command_has_an_unknown_name(name: str) -> None:
    assert [words for words in words_of_cases(name) if any("nope" in word for word in words)]


def words_of_cases(name: str) -> list[list[str]]:
    """Return the words of the command lines of a command."""
    return [shlex.split(command) for command, _ in CASES if command.startswith(f"{name} ")]
