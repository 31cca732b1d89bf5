"""What lies under a prefix of a bucket: pages of names, keys that are no paths, versions that change."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from tests.programs import server
from tests.programs.server import Server, serving, web
from tests.programs.volumes import files

from allotment.programs import ending, volume
from allotment.programs.fetch_s3 import Bucket, fetch, signing
from allotment.programs.signature import Credentials

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'


def page(objects: dict[str, bytes], more: str = "", tag: str = "1") -> bytes:
    """Return a page of a list as S3 writes it."""
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><ETag>&quot;{tag}&quot;</ETag><Size>{len(data)}</Size></Contents>"
        for key, data in objects.items()
    )
    truncated = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    return (
        f'<?xml version="1.0"?><ListBucketResult xmlns="{NAMESPACE}">{contents}{truncated}</ListBucketResult>'.encode()
    )


def bucket(*pages: dict[str, bytes], tag: str = "1") -> dict[str, bytes]:
    """Return what a server of a bucket has, by path: its pages and its objects."""
    responses: dict[str, bytes] = {}
    for number, objects in enumerate(pages):
        token = f"continuation-token=t/{number}&" if number else ""
        more = f"t/{number + 1}" if number + 1 < len(pages) else ""
        responses[f"/data?{token}list-type=2&prefix=models/"] = page(objects, more, tag)
        responses |= {f"/data/{key}": data for key, data in objects.items()}
    return responses


def fetched(served: Server, root: Path) -> None:
    fetch(Bucket(web(), served.url, "data"), "models/", str(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty volume."""
    (tmp_path / volume.OWN).mkdir()
    return tmp_path


@pytest.mark.parametrize("end", ["", "/"])
def test_only_the_endpoint_gets_a_signature(end: str) -> None:
    headers = signing(f"https://s3.example{end}", Credentials("AKIAEXAMPLE", "s3cret", "eu-1"))
    assert "AKIAEXAMPLE" in headers("https://s3.example/data?list-type=2")["Authorization"]
    for other in ("https://evil.example/x", "https://s3.example.evil.example/x", "http://s3.example/x"):
        assert headers(other) == {}
    assert signing("https://s3.example", Credentials("", "", "eu-1"))("https://s3.example/data") == {}


def test_every_page_of_it(root: Path) -> None:
    first = {"models/a.bin": b"a" * 5000, "models/": b"", "models/x/": b""}
    second = {"models/x/b ü+%.bin": b"b", "models/none": b"", "models/.allotment/prepared": b"{}"}
    with serving(bucket(first, second), server.whole, server.breaks_off(100)) as served:
        fetched(served, root)
    assert files(root) == {"a.bin": b"a" * 5000, "x/b ü+%.bin": b"b", "none": b""}
    assert ("/data/models/a.bin", "bytes=100-") in served.requests


def test_fetch_requests_only_missing_files_and_new_versions(root: Path) -> None:
    with serving(bucket({"models/a": b"one", "models/b": b"two"})) as served:
        fetched(served, root)
        (root / "b").unlink()
        earlier_requests = len(served.requests)
        fetched(served, root)
        assert [path for path, _ in served.requests[earlier_requests:]] == [
            "/data?list-type=2&prefix=models%2F",
            "/data/models/b",
        ]
    with serving(bucket({"models/a": b"six", "models/b": b"two"}, tag="2")) as served:
        fetched(served, root)
    assert files(root) == {"a": b"six", "b": b"two"}


@pytest.mark.parametrize("key", ["models/../../etc/passwd", "models/a//b", "models/./a", "models/.."], ids=repr)
def test_a_key_that_is_no_path(root: Path, key: str) -> None:
    with serving(bucket({key: b"x"})) as served, pytest.raises(ending.Failed, match="is no path") as failure:
        fetched(served, root)
    assert failure.value.status == ending.SOURCE_UNREADABLE


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (page({}), ending.SOURCE_UNAVAILABLE),
        (b"<html>", ending.SOURCE_UNREADABLE),
        (ENTITIES.encode(), ending.SOURCE_UNREADABLE),
        (page({"models/a": b"x"}).replace(b"<Size>1<", b"<Size>-1<"), ending.SOURCE_UNREADABLE),
        (page({"models/a": b"x"}).replace(b"<Size>1<", b"<Size>%s<" % (5000 * b"1")), ending.SOURCE_UNREADABLE),
        (ENTITIES.encode("utf-16"), ending.SOURCE_UNREADABLE),
        (f'<?xml version="1.0" encoding="UTF-16"?>{ENTITIES}'.encode("utf-16-be"), ending.SOURCE_UNREADABLE),
        (b'<?xml version="1.0" encoding="latin-1"?><x>\xff</x>', ending.SOURCE_UNREADABLE),
    ],
    ids=["nothing", "a page", "entities", "no size", "a long size", "UTF-16", "UTF-16 without a mark", "not UTF-8"],
)
def test_a_list_that_is_none(root: Path, text: bytes, status: int) -> None:
    with serving({"/data": text}) as served, pytest.raises(ending.Failed) as failure:
        fetched(served, root)
    assert failure.value.status == status


def test_a_bucket_that_is_closed(root: Path) -> None:
    with serving({}, server.says(403)) as served, pytest.raises(ending.Failed, match="isn't open to us") as failure:
        fetched(served, root)
    assert failure.value.status == ending.ACCESS_DENIED
