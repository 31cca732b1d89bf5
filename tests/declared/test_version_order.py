"""The names of versions are ordered by their numbers, and a release candidate precedes its release."""

from __future__ import annotations

from allotment.declared.version_order import build_version_key


def test_versions_are_sorted_from_the_oldest_to_the_newest() -> None:
    versions = ["latest", "1.2.0-rc2", "1.2.0-rc10", "1.2.0", "v1.2.1", "1.9", "1.10", "2026-09-01", "2026-10-05"]
    assert sorted(set(versions), key=build_version_key) == versions
