"""How a preparation ends: exit statuses, each with one meaning."""

from __future__ import annotations

LOCKED = 71
CHECKSUM_MISMATCH = 72
ADDRESS_REFUSED = 73
SOURCE_UNAVAILABLE = 74
NO_SPACE = 75
SOURCE_UNREADABLE = 76
ACCESS_DENIED = 77
ALREADY_COMPLETE = 78
SUPERSEDED = 79


class Failed(Exception):
    """The preparation failed, in words for its log."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
