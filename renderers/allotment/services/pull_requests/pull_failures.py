"""What goes wrong with one pull request, told apart from what concerns all of them: the others are reviewed and
followed all the same."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from allotment.adapters.forge.forge import ForgeError, InvalidToken, RateLimited, RequestDeclined
from allotment.problems import AllotmentError

T = TypeVar("T")


class PullFailure(NamedTuple):
    """Why a pull request isn't spoken of. `is_permanent` says that trying again soon is of no use."""

    reason: Literal["forge", "refused", "bug"]
    message: str
    is_permanent: bool


def capture_failure(act: Callable[[], T], of_all: tuple[type[AllotmentError], ...] = ()) -> T | PullFailure:
    """Return what `act`, which is about one pull request, returns, or why it doesn't. Bugs of ours count.

    What says that the forge takes nothing now from anybody is raised, and so are errors `of_all`.
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
