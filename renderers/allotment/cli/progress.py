"""A progress bar on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from allotment.cli.options import is_quiet


def show_progress(title: str) -> AbstractContextManager[Any]:
    """Return a progress bar. If there is no terminal, or with --quiet, return a context that shows nothing."""
    return show_bar(title) if sys.stderr.isatty() and not is_quiet() else nullcontext(None)


@contextmanager
def show_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar while the block runs, and give the block a function to call with (done, total).

    The function draws the bar at every 25th step and at the end. No thread draws it, because the block forks processes,
    and a fork needs a process without other threads.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            if done == total or done % 25 == 0:
                progress.refresh()

        yield show
