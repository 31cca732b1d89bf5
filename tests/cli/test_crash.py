"""What a bug report and a log show of the credentials that the process has read: nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog

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
