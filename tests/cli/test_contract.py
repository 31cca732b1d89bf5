"""What holds for every command: where it looks, how it prints, what it says when it is asked to be quiet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from tests.conftest import DAY, PROJECT, Allot, checked, count_declarations
from tests.support.published import Place
from tests.support.shell_completion import completed
from tests.support.terminal import ALLOT, run_in_terminal

from allotment.cli.main import COMMANDS
from allotment.cli.main import allot as program
from allotment.reports.outputs import OUTPUTS, schema_file

DECLARED = ("validate", "--as-of", DAY)


@pytest.mark.parametrize("command", OUTPUTS)
def test_every_command_with_json_output_has_a_schema(command: str) -> None:
    # All commands that edit declarations print a ChangeOutput.
    assert command == "change" or command.partition(" ")[0] in COMMANDS
    assert (PROJECT / f"schemas/output/{schema_file(command)}").is_file()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_goes_to_a_folder_and_can_be_quiet(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    options = [option for parameter in command.params for option in parameter.opts]
    assert [options.count(flag) for flag in ("-C", "--quiet")] == [1, 1]
    second_lookup = program.get_command(click.Context(program), name)
    assert second_lookup is command, "and not once more each time that it is asked for"


@pytest.mark.parametrize("words", [("ownership", "codeowners"), ("stock", "list")])
def test_a_command_below_another_can_too(words: tuple[str, ...], place: Place, allot: Allot) -> None:
    result = allot(*words, "-C", place.root, "-q")
    assert (result.code, result.out) == (0, allot(*words, "--repo", place.root).out)
    assert result.out


@pytest.mark.parametrize("words", [("-C", "{folder}", *DECLARED), (*DECLARED, "-C", "{folder}")])
def test_validate_reads_the_folder_of_the_c_option(
    words: tuple[str, ...],
    sample: Path,
    allot: Allot,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    folder = sample / "tenants/solo-ada"
    result = allot(*(word.format(folder=folder) for word in words), "tenant.yaml")
    assert (result.code, result.err, result.out) == (0, "", "1 file: fine\n")
    assert Path.cwd() == elsewhere


def test_a_variable_says_where_the_repository_is(
    sample: Path, allot: Allot, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert allot(*DECLARED).code == 2
    monkeypatch.setenv("ALLOT_REPO", str(sample))
    assert allot(*DECLARED).code == 0


def test_error_message_names_the_invalid_environment_variable(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_REPO", "/nowhere")
    result = allot(*DECLARED)
    assert result.code == 2
    assert result.err.splitlines()[-1] == "Error: Invalid value for ALLOT_REPO: Directory '/nowhere' does not exist."


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("validat", "; did you mean 'validate'?"),
        ("help", "; did you mean '--help'?"),
        ("x", ": `allot --help` lists the commands"),
    ],
)
def test_a_command_that_isnt_there_names_the_nearest(word: str, hint: str, allot: Allot) -> None:
    result = allot(word)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(f"Error: no command is named '{word}'{hint}")


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [("--help",), ("validate",), ("catalog", "-q"), ("explain", "rule"), ("render", "--stdout")]
)
def test_an_output_that_cannot_be_written_is_no_bug(words: tuple[str, ...], sample: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*ALLOT, *words], cwd=sample, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "allot: the output can't be written: No space left on device\n")


@pytest.mark.parametrize("words", [("--repo", "nowhere"), ("-C", "nowhere")])
@pytest.mark.parametrize("command", ["validate", "fmt", "schema", "bootstrap", "status", "render"])
def test_a_folder_that_isnt_there_is_the_commands_fault(
    command: str, words: tuple[str, ...], sample: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sample)
    result = allot(command, *words)
    assert (result.code, result.out) == (2, "")
    assert "'nowhere' does not exist" in result.err


def test_quiet_leaves_what_is_wrong(sample: Path, allot: Allot) -> None:
    words = (*DECLARED, "--repo", sample, "-q")
    warned = allot(*words)
    assert (warned.code, warned.out.count("\n"), warned.out.count(": warning: ")) == (0, 3, 3)
    (sample / "tenants/solo-ada/tenant.yaml").write_text("kind: Tenant\n")
    wrong = allot(*words)
    assert wrong.code == 1
    assert all(line.split(":")[0].endswith(".yaml") for line in wrong.out.splitlines())


def test_choices_take_any_case(sample: Path, allot: Allot) -> None:
    result = allot(*DECLARED, "--repo", sample, "-o", "JSON")
    assert checked("validate", result.out)["tenants"] == 7
    assert allot(*DECLARED, "--repo", sample, "--format", "json").out == result.out, "as it was once called"
    assert "--format" not in allot("validate", "--help").out


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_had_without(variable: str, value: str, sample: Path) -> None:
    words = [*ALLOT, *DECLARED, "--repo", str(sample)]
    assert "\x1b[" in run_in_terminal(words, sample, environment={"NO_COLOR": ""}).raw
    plain = run_in_terminal(words, sample, environment={"NO_COLOR": "", variable: value})
    assert f"{count_declarations(sample)} files" in plain.raw
    assert "\x1b[" not in plain.raw


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples(name: str, allot: Allot) -> None:
    help_text = allot(name, "--help").out
    assert "\n  Examples:\n" in help_text
    examples = [line.strip() for line in help_text.split("  Examples:\n")[1].split("\n\n")[0].splitlines()]
    assert examples[0].startswith(f"allot {name}")


# Completion, asked for as the shells' scripts do


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("allot val", ["validate"]),
        ("allot explain GPUSt", ["GPUStorage", "GPUStorageSnapshot"]),
        ("allot explain Stock.spec.g", ["Stock.spec.gpuSpec"]),
        ("allot explain rule pack", ["packing"]),
        ("allot recover solo", ["solo-ada/models", "solo-ada/styles"]),
        ("allot wait solo", ["solo-ada/models", "solo-ada/styles", "solo-ada/webui"]),
        (
            "allot wait ",
            ["acme-robotics", "film-house", "ml-orbit", "northlight", "solo-ada", "studio-kite", "uni-lab"],
        ),
        ("allot status solo", ["solo-ada"]),
        ("allot recover solo-ada/", ["solo-ada/models", "solo-ada/styles"]),
        ("allot render --cluster ", ["eu-1", "us-1"]),
        ("allot render --tenant uni", ["uni-lab"]),
        ("allot validate --output s", ["sarif"]),
        ("allot status studio-kite/b", ["studio-kite/base", "studio-kite/before-upgrade"]),
        ("allot status --spec l4-q", ["l4-quarter"]),
        ("allot status --state p", ["published", "pending", "preparing"]),
        ("allot wait solo-ada/w", ["solo-ada/webui"]),
        ("allot history --cluster u", ["us-1"]),
        ("allot catalog --tenant solo", ["solo-ada"]),
    ],
)
def test_names_are_completed_from_the_repository(words: str, names: list[str], sample: Path) -> None:
    assert completed(words, sample) == names


@pytest.mark.process
def test_names_are_completed_from_the_folder_that_is_gone_to(sample: Path, tmp_path: Path) -> None:
    assert completed(f"allot -C {sample} status solo", tmp_path) == ["solo-ada"]
    assert completed(f"allot status -C {sample} solo-ada/w", tmp_path) == ["solo-ada/webui"]
    assert completed(f"allot -C {sample.parent} status --repo {sample.name} solo", tmp_path) == ["solo-ada"]


@pytest.mark.process
def test_where_there_is_no_repository_there_are_no_names(tmp_path: Path) -> None:
    assert completed("allot recover ", tmp_path) == []


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, allot: Allot) -> None:
    result = allot("completion", shell.upper())
    assert (result.code, result.err) == (0, "")
    assert f"_ALLOT_COMPLETE={shell}_complete" in result.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=result.out, text=True, check=True)


def test_ownership_codeowners_prints_json(sample: Path, allot: Allot) -> None:
    output = checked("ownership", allot("ownership", "codeowners", "--repo", sample, "-o", "json").out)
    owners = {rule["path"]: rule["owners"] for rule in output["paths"]}
    assert next(iter(owners)) == "**"
    assert owners["**"] == ["@northlight-example/platform"]
    assert owners["tenants/solo-ada/members.yaml"] == ["@ada-k"]


def test_bootstrap_prints_the_same_objects_as_json(sample: Path, allot: Allot) -> None:
    output = json.loads(allot("bootstrap", "--repo", sample, "-o", "json").out)
    assert (output["apiVersion"], output["kind"]) == ("v1", "List")
    assert output["items"] == list(yaml.safe_load_all(allot("bootstrap", "--repo", sample).out))
    assert "Application" in {manifest["kind"] for manifest in output["items"]}
