"""What a command that a bug or a signal ends leaves behind: no credentials in reports and logs, and no temporary files."""

from __future__ import annotations

import builtins
import json
import signal
import warnings
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog

from allotment import __main__ as entry
from allotment.adapters.temporary_folder import temporary_folder
from allotment.cli import main as command_line
from allotment.cli.crash import write_report
from allotment.cli.service import create_logger
from allotment.problems import hide_in_errors

SECRET = "t0ken-of-a-report"


@pytest.fixture(autouse=True)
def secret() -> None:
    hide_in_errors(SECRET)


def test_a_report_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = Path(write_report(f"ValueError: Invalid header value b'Bearer {SECRET}'")).read_text(encoding="utf-8")
    assert "Invalid header value b'Bearer ***'" in text
    assert SECRET not in text


def test_a_log_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        create_logger().warning("no answer", message=f"the server says {SECRET}", tries=3)
    finally:
        structlog.reset_defaults()
    event = json.loads(capsys.readouterr().out)
    assert (event["message"], event["tries"]) == ("the server says ***", 3)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=str,
)
def test_a_signal_removes_the_temporary_files(
    number: signal.Signals, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_command(*_arguments: Any, **_options: Any) -> None:
        with temporary_folder("allot-test-"):
            assert len(list(tmp_path.iterdir())) == 1
            signal.raise_signal(number)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(command_line, "allot", run_command)
    previous_handler = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended:
            command_line.main([])
    finally:
        signal.signal(number, previous_handler)
    assert (ended.value.code, list(tmp_path.iterdir())) == (status, [])


def test_an_interrupt_of_the_import_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: Any) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", interrupt)
        with pytest.raises(SystemExit) as ended:
            entry.main()
    assert ended.value.code == 130


def test_a_warning_of_a_library_reaches_no_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.warnoptions", [])
    monkeypatch.setattr(
        command_line, "main", lambda: warnings.warn("URLs without a scheme", FutureWarning, stacklevel=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        entry.main()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["validate", "--nope"], ["instance", "list", "--repo", "/dev/null/x"], ["nope"]])
def test_an_error_stream_that_is_full_is_no_error_of_the_declarations(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stderr", full)
        with pytest.raises(SystemExit) as ended:
            command_line.main(words)
    assert ended.value.code == 2
