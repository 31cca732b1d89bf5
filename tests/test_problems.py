"""Errors show no secret that was registered, whatever a server repeats."""

from __future__ import annotations

import pytest

from allotment.problems import AllotmentError, OperationRefused, escape_unprintable, hide_in_errors


@pytest.mark.parametrize("error", [AllotmentError, OperationRefused])
def test_an_error_shows_no_secret(error: type[AllotmentError]) -> None:
    hide_in_errors("hunter2-hunter2", "hunter2-hunter2-and-more", "abc", "")
    text = str(error("the server says: 'hunter2-hunter2' and hunter2-hunter2-and-more are wrong, abc is not"))
    assert text == "the server says: '***' and *** are wrong, abc is not"


def test_the_log_of_a_job_takes_no_text_for_a_command() -> None:
    assert escape_unprintable("##[stop-commands]x") == "## [stop-commands]x"
