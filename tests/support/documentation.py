"""The folder of the documentation."""

from __future__ import annotations

from tests.conftest import PROJECT

DOCS = PROJECT / "docs"
