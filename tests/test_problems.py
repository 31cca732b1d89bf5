"""Errors show no secret that was registered, whatever a server repeats."""

from __future__ import annotations

import pytest

from allotment.problems import AllotmentError, OperationRefused, escape_unprintable, hide_in_errors, hide_secrets
from tests.conftest import Allot


@pytest.mark.parametrize("error", [AllotmentError, OperationRefused])
def test_an_error_shows_no_secret(error: type[AllotmentError]) -> None:
    hide_in_errors("hunter2-hunter2", "hunter2-hunter2-and-more", "abc", "")
    text = str(error("the server says: 'hunter2-hunter2' and hunter2-hunter2-and-more are wrong, abc is not"))
    assert text == "the server says: '***' and *** are wrong, abc is not"


def test_the_log_of_a_job_takes_no_text_for_a_command() -> None:
    assert escape_unprintable("##[stop-commands]x") == "## [stop-commands]x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:s3cret@host/a b", "https://me:***@host/a b"),
        ("HTTPS://:s3cret@host", "HTTPS://:***@host"),
        ("two: http://a:b@c and ssh://d:e@f", "two: http://a:***@c and ssh://d:***@f"),
        ("https://host:8443/team@home", "https://host:8443/team@home"),
        ("ssh://git@host/x", "ssh://git@host/x"),
    ],
)
def test_a_password_in_a_url_is_hidden(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown
    assert str(OperationRefused(text)) == shown


@pytest.mark.parametrize("words", [("status",), ("instance", "stop", "a/b", "--push")])
def test_a_wrong_option_shows_no_password(
    words: tuple[str, ...], allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOT_REPO", "HTTPS://me:s3cret@host/a b")
    result = allot(*words)
    assert (result.code, "s3cret" in result.err, "ALLOT_REPO" in result.err) == (2, False, True)
