"""`allot run`: publishes in the background, as a process in a cluster."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click


@click.command(context_settings={"auto_envvar_prefix": "ALLOT"})
@click.option("--publish", is_flag=True, help="Publish the source's newest commit to the rendered branches.")
@click.option("--source", metavar="URL", required=True, help="The repository of declarations.")
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch that counts.")
@click.option("--to", metavar="URL", help="The repository to publish to; the source if absent.")
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for its own clone; may be lost.",
)
@click.option(
    "--interval",
    default=30.0,
    show_default=True,
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="How often to look.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Where /healthz, /readyz, /metrics and /webhook are.",
)
def command(publish: bool, source: str, branch: str, to: str | None, data: Path, interval: float, listen: str) -> None:
    """Look at the source again and again, and publish what is merged.

    POST /webhook makes it look at once; it carries nothing that is believed, so it needs no secret. SIGTERM ends it after
    what it is doing. Options can be given as ALLOT_SOURCE, ALLOT_TO and so on.
    """
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.adapters.metrics import CONTENT_TYPE, Metrics
    from allotment.adapters.web import Answers, Web
    from allotment.cli.options import day_of
    from allotment.pipeline.assembler import Assembler
    from allotment.pipeline.publication import Publisher
    from allotment.pipeline.rounds import Rounds

    if not publish:
        raise click.UsageError("Say what to run: --publish.")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{listen!r} is no HOST:PORT: write one such as 127.0.0.1:8080")
    repository = Repository.at(data)
    log, metrics = logger(), Metrics()
    publisher = Publisher(
        data,
        Remote(repository, to or source, keep=True),
        Assembler(processes=1),  # a process with threads is not forked
        lambda one: day_of(one, None),
        newest=True,
    )
    origin = Remote(repository, source, keep=True)
    rounds = Rounds(origin, branch, publisher, metrics, log, interval)
    try:
        web = Web(
            host, int(port), Answers(rounds.alive, rounds.ready, lambda: (CONTENT_TYPE, metrics.text()), rounds.wake)
        )
    except OSError as error:
        raise click.UsageError(f"{listen} can't be listened on: {error.strerror}") from None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: rounds.stop())
    log.info("started", source=str(origin), branch=branch, to=str(publisher.remote), listen=f"{host}:{web.port}")
    rounds.run()
    web.close()
    log.info("stopped")


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
