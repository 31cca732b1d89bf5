"""A progress bar on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from allotment.cli.options import is_quiet


def on_terminal(title: str) -> AbstractContextManager[Any]:
    """Return a progress bar on a terminal, nothing elsewhere, or with --quiet."""
    return bar(title) if sys.stderr.isatty() and not is_quiet() else nullcontext(None)


@contextmanager
def bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs; it is given a function to call with (done, total).

    It draws when it is told to, without a thread of its own: processes are forked meanwhile.
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
