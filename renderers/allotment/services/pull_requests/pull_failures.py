"""Catches the failure of one pull request, so that the other pull requests are still handled.

Raises the errors that concern all pull requests.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from allotment.adapters.forge.forge import ForgeError, InvalidToken, RateLimited, RequestDeclined
from allotment.problems import AllotmentError

T = TypeVar("T")


class PullFailure(NamedTuple):
    """The failure of one pull request. `is_permanent` is true if an early retry is useless."""

    reason: Literal["forge", "refused", "bug"]
    message: str
    is_permanent: bool


def capture_failure(act: Callable[[], T], of_all: tuple[type[AllotmentError], ...] = ()) -> T | PullFailure:
    """Return the result of `act`, which handles one pull request. If `act` fails, return the failure.

    A bug is a failure too. Some errors concern all pull requests and are raised: a rate limit, an invalid token, and an
    error of a type in `of_all` that is no ForgeError.
    """
    try:
        return act()
    except (RateLimited, InvalidToken):
        raise
    except ForgeError as error:
        return PullFailure("forge", str(error), isinstance(error, RequestDeclined))
    except of_all:
        raise
    except AllotmentError as error:
        return PullFailure("refused", str(error), is_permanent=False)
    except Exception:
        return PullFailure("bug", traceback.format_exc(), is_permanent=True)
