"""What every test of programs leaves behind: no connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.programs.server import close_all


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_all()
