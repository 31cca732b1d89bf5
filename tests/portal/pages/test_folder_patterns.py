"""`folder_patterns` matches the folders at which an instance can mount a storage."""

from __future__ import annotations

import re

from allotment.portal.pages.folder_patterns import build_app_folder_pattern, build_free_folder_pattern


def find_matches(pattern: str, paths: list[str]) -> list[str]:
    """Return the paths that a pattern matches as a whole."""
    return [path for path in paths if re.fullmatch(pattern, path)]


def test_a_free_folder_is_outside_the_system_and_other_storages() -> None:
    paths = ["/data", "/workspace/b", "/workspace", "/workspace/a", "/workspace/a/b", "/dev/shm", "/a/../b", "/a/"]
    assert find_matches(build_free_folder_pattern(["/workspace/a"]), paths) == ["/data", "/workspace/b"]
    assert find_matches(build_free_folder_pattern(()), paths) == ["/data", "/workspace/b", "/workspace", *paths[3:5]]


def test_an_app_folder_overlaps_a_folder_of_the_app_or_is_in_an_argument() -> None:
    paths = ["/workspace", "/workspace/out", "/workspace/out/a", "/workspace/output", "/data", "/data/in", "/x"]
    assert find_matches(build_app_folder_pattern(["/workspace/out"], ["--input=/data/in/"]), paths) == [
        *paths[:3],
        "/data",
        "/data/in",
    ]
