"""What tests of services share: an owner of the clones, which unlocks them as a command does at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from allotment.adapters.git.clone import release_clones


@pytest.fixture(autouse=True)
def _released_clones() -> Iterator[None]:
    yield
    release_clones()
