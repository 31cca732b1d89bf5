"""What goes wrong with one pull request, told apart from what concerns all of them: the others are reviewed and
followed all the same."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from allotment.adapters.forge.forge import Declined, ForgeError, RateLimited, Unauthorised
from allotment.problems import AllotmentError

T = TypeVar("T")


class Trouble(NamedTuple):
    """Why a pull request isn't spoken of. `stays` says that trying again soon is of no use."""

    reason: Literal["forge", "refused", "bug"]
    words: str
    stays: bool


def tried(act: Callable[[], T], of_all: tuple[type[AllotmentError], ...] = ()) -> T | Trouble:
    """Return what `act`, which is about one pull request, returns, or why it doesn't. Bugs of ours count.

    What says that the forge takes nothing now from anybody is raised, and so are errors `of_all`.
    """
    try:
        return act()
    except (RateLimited, Unauthorised):
        raise
    except ForgeError as error:
        return Trouble("forge", str(error), isinstance(error, Declined))
    except of_all:
        raise
    except AllotmentError as error:
        return Trouble("refused", str(error), stays=False)
    except Exception:
        return Trouble("bug", traceback.format_exc(), stays=True)
