"""What a running program logs to: events with what they are about, as structlog has them."""

from __future__ import annotations

from typing import Any, Protocol


class Log(Protocol):
    """Structured logging: an event and what it is about."""

    def info(self, event: str, **about: Any) -> Any:
        """Log what happened."""
        ...

    def warning(self, event: str, **about: Any) -> Any:
        """Log what somebody should look at."""
        ...

    def error(self, event: str, **about: Any) -> Any:
        """Log what went wrong."""
        ...
