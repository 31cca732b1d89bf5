"""Errors show no secret that was registered, whatever a server repeats."""

from __future__ import annotations

import pytest

from allotment.problems import (
    AllotmentError,
    OperationRefused,
    escape_unprintable,
    hide_in_errors,
    hide_secrets,
    quote_value,
)
from tests.conftest import Allot


@pytest.mark.parametrize("error", [AllotmentError, OperationRefused])
def test_an_error_shows_no_secret(error: type[AllotmentError]) -> None:
    hide_in_errors("hunter2-hunter2", "hunter2-hunter2-and-more", "abc", "")
    text = str(error("the server says: 'hunter2-hunter2' and hunter2-hunter2-and-more are wrong, abc is not"))
    assert text == "the server says: '***' and *** are wrong, abc is not"


def test_the_log_of_a_job_takes_no_text_for_a_command() -> None:
    assert escape_unprintable("##[stop-commands]x") == "## [stop-commands]x"


@pytest.mark.parametrize(
    "text", ["Müller", "it’s „so“", "5 € – ok…", "日本語 한국", "→ ✔ 🙂", "naïve Straße Łódź", "Tiếng Việt, ș ı"]
)
def test_a_clear_character_is_shown_as_typed(text: str) -> None:
    assert quote_value(text) == f"'{text}'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2J\x7f\x9b", r"a\x1b[2J\x7f\x9b"),
        ("a\nb\u2028c\u0085", r"a\nb\u2028c\x85"),
        ("\u202eab\u2066\u200f", r"\u202eab\u2066\u200f"),
        ("a\u200bb\u00adc\ufeff\u2060", r"a\u200bb\xadc\ufeff\u2060"),
        ("a\u00a0b\u3000", r"a\xa0b\u3000"),
        ("\u115f\u3164\u2800\ufe0f\u034f", r"\u115f\u3164\u2800\ufe0f\u034f"),
        ("l4-qu\u0430rter \u03bf \uff41\uff1d", r"l4-qu\u0430rter \u03bf \uff41\uff1d"),
        ("\u05d0 \u0627 \u061f \u066c", r"\u05d0 \u0627 \u061f \u066c"),
        ("l4-qu\u0251rter \u0261\u01c3\ua78c", r"l4-qu\u0251rter \u0261\u01c3\ua78c"),
        ("a\u037e b\u1fef \U0001d159", r"a\u037e b\u1fef \U0001d159"),
        ("u\u0308", r"u\u0308"),
        ("\ud800\ue000\U000e0041", r"\ud800\ue000\U000e0041"),
    ],
)
def test_an_unclear_character_is_escaped(text: str, shown: str) -> None:
    assert quote_value(text) == f"'{shown}'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:s3cret@host/a b", "https://me:***@host/a b"),
        ("HTTPS://:s3cret@host", "HTTPS://:***@host"),
        ("two: http://a:b@c and ssh://d:e@f", "two: http://a:***@c and ssh://d:***@f"),
        ("https://host/x?a=b&private_token=s3cret&c=d", "https://host/x?a=b&private_token=***&c=d"),
        ("'https://host/x?token=s3cret'", "'https://host/x?token=***'"),
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
