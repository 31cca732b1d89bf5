"""An interrupted upload is continued under its name, and no two uploads have the same name at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.access.copy.upload_names import UploadName, reserve_name
from allotment.adapters.file_cache import cache_folder


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def interrupted(digest: str = "d", remote: str = "/a.bin") -> UploadName:
    """Return the name of an upload that is interrupted."""
    with pytest.raises(KeyboardInterrupt), reserve_name(digest, remote) as name:
        raise KeyboardInterrupt
    return name


def test_an_interrupted_upload_is_continued_until_it_ends() -> None:
    first = interrupted()
    assert not first.is_continued
    assert interrupted() == UploadName(first.token, True)
    assert interrupted("other").token != first.token
    assert interrupted("d", "/b.bin").token != first.token
    with reserve_name("d", "/a.bin") as name:
        assert name == UploadName(first.token, True)
    assert not interrupted().is_continued


def test_an_upload_at_the_same_time_has_another_name() -> None:
    first = interrupted()
    with reserve_name("d", "/a.bin") as name, reserve_name("d", "/a.bin") as other:
        assert name == UploadName(first.token, True)
        assert other.token != first.token
        assert not other.is_continued


def test_a_damaged_file_is_replaced() -> None:
    interrupted()
    (path,) = cache_folder().glob("*.upload")
    for damage in (b"", b"../../../../../../../../etc/passwd", b"x" * 5000, b"\xff" * 32):
        path.write_bytes(damage)
        name = interrupted()
        assert not name.is_continued
        assert interrupted() == UploadName(name.token, True)


def test_without_a_cache_the_name_is_random(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder", encoding="utf-8")
    assert interrupted().token != interrupted().token
