"""The verdict of a pull request is that of the newest status by the owner of the token."""

from __future__ import annotations

from unittest import mock

import pytest

from allotment.adapters.forge.forge import CommitStatus, Forge
from allotment.portal.site.open_pull_requests import NO_VERDICT, find_verdict
from allotment.services.pull_requests.plan_comment import STATUS_CONTEXT

BOT = "northlight-bot"
HEAD = "0" * 40


def status(state: str, author: str = BOT, context: str = STATUS_CONTEXT) -> CommitStatus:
    return CommitStatus(context, state, "", author, "")  # type: ignore[arg-type]  # a forge may have other states


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ([], NO_VERDICT),
        ([status("success")], "can be merged"),
        ([status("failure"), status("success")], "can't be merged"),
        ([status("success", author="eve"), status("failure")], "can't be merged"),
        ([status("success", author="eve")], NO_VERDICT),
        ([status("success", context="ci/build"), status("error")], "can't be merged"),
        ([status("pending"), status("success")], NO_VERDICT),
    ],
)
def test_only_the_statuses_of_the_token_count(statuses: list[CommitStatus], verdict: str) -> None:
    forge = mock.create_autospec(Forge, instance=True)
    forge.identity.return_value = BOT
    forge.list_statuses.return_value = iter(statuses)
    assert find_verdict(forge, HEAD) == verdict
    forge.list_statuses.assert_called_once_with(HEAD)
