"""What every running program of ours has: a log, an address to be asked at, and an end in order."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def address(listen: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{listen!r} is no HOST:PORT: write one such as 127.0.0.1:8080")
    return host, int(port)


def loaded() -> None:
    """Say that everything is loaded: what there is now lives as long as the process, and the cycle collector needn't look
    at it again and again."""
    gc.collect()
    gc.freeze()


@contextmanager
def serving(
    listen: str,
    counts: CollectorRegistry,
    alive: Callable[[], bool],
    ready: Callable[[], bool],
    woken: Callable[[], None],
) -> Iterator[str]:
    """Answer over HTTP for a while, at HOST:PORT; yield that, with the port that was found where it asks for any."""
    from allotment.adapters.metrics import CONTENT_TYPE, text_of
    from allotment.adapters.web import Answers, Web

    host, port = address(listen)
    try:
        web = Web(host, port, Answers(alive, ready, lambda: (CONTENT_TYPE, text_of(counts)), woken))
    except OSError as error:
        raise click.UsageError(f"{listen} can't be listened on: {error.strerror}") from None
    try:
        yield f"{host}:{web.port}"
    finally:
        web.close()


@contextmanager
def ends_with(*stops: Callable[[], None]) -> Iterator[None]:
    """Stop in order when the process is told to end."""

    def stop(*_: object) -> None:
        for one in stops:
            one()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def logger() -> Any:
    """Return the log: a JSON object a line on standard output, or lines for people on a terminal."""
    import structlog

    shown: Any = structlog.dev.ConsoleRenderer() if sys.stdout.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            shown,
        ],
        logger_factory=structlog.PrintLoggerFactory(),
    )
    return structlog.get_logger()
