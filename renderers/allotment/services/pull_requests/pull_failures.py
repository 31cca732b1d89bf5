"""Separates the failure of one pull request from failures that concern all, so that the others are still handled."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from allotment.adapters.forge.forge import ForgeError, InvalidToken, RateLimited, RequestDeclined
from allotment.problems import AllotmentError

T = TypeVar("T")


class PullFailure(NamedTuple):
    """The failure of one pull request. `is_permanent` means that a retry soon is useless."""

    reason: Literal["forge", "refused", "bug"]
    message: str
    is_permanent: bool


def capture_failure(act: Callable[[], T], of_all: tuple[type[AllotmentError], ...] = ()) -> T | PullFailure:
    """Return the result of `act`, which handles one pull request, or its failure. Bugs count as failures.

    Raises errors of the types `of_all`, and errors that make the forge refuse every request.
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
