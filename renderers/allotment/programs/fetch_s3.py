"""Fetches what lies under a prefix of an S3 bucket, each object to the path that follows the prefix."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from . import addresses, download, ending, volume
from .signature import Credentials, signed

MOST_BYTES = 16 * 1024 * 1024  # of one page of a list, which holds a thousand names
MOST_DIGITS = 20  # of an object's size in bytes
_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Found(NamedTuple):
    """An object of the bucket: its key, what changes with its content, and its size in bytes."""

    key: str
    tag: str
    size: int


class Bucket:
    """A bucket behind an endpoint, in path style."""

    def __init__(self, web: download.Web, endpoint: str, name: str) -> None:
        self._web = web
        self._base = f"{endpoint.rstrip('/')}/{quote(name, safe='')}"

    def objects(self, prefix: str) -> Iterator[Found]:
        """Yield the objects under a prefix. Raises Failed."""
        token = ""
        while True:
            query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
            url = f"{self._base}?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in sorted(query.items()))
            page = self._page(url)
            for one in page.iter(f"{_XML}Contents"):
                size = one.findtext(f"{_XML}Size", "")
                if not size.isascii() or not size.isdigit() or len(size) > MOST_DIGITS:
                    raise ending.Failed(ending.SOURCE_UNREADABLE, "the list of the bucket has no sizes")
                yield Found(one.findtext(f"{_XML}Key", ""), one.findtext(f"{_XML}ETag", ""), int(size))
            token = page.findtext(f"{_XML}NextContinuationToken", "")
            if page.findtext(f"{_XML}IsTruncated") != "true" or not token:
                return

    def _page(self, url: str) -> ElementTree.Element:
        body = self._web.whole(url, MOST_BYTES)
        try:
            text = body.decode("utf-8")  # as S3 writes it: in another encoding a document type looks different
            if "<!DOCTYPE" in text or "\0" in text:  # the parser takes zeros for UTF-16
                raise ending.Failed(ending.SOURCE_UNREADABLE, "the list of the bucket isn't S3's")
            return ElementTree.fromstring(text)  # noqa: S314  # no document type, so no entities
        except (ElementTree.ParseError, ValueError) as error:
            raise ending.Failed(ending.SOURCE_UNREADABLE, f"the list of the bucket can't be read: {error}") from None

    def fetch(self, found: Found, root: str) -> str:
        """Return the path of an object's bytes."""
        url = f"{self._base}/{quote(found.key, safe='/-._~')}"
        return download.fetch(self._web, download.Wanted(url, f"{url} {found.tag} {found.size}", found.size), root)


def path_of(key: str, prefix: str) -> str | None:
    """Return where an object goes: None for a folder's own entry and for what is ours. Raises Failed where it can't go anywhere."""
    path = key.removeprefix(prefix).lstrip("/") or key.rpartition("/")[2]
    if key.endswith("/") or not path or path.split("/")[0] in volume.LEFT_OUT:
        return None
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ending.Failed(ending.SOURCE_UNREADABLE, f"the key {key!r} is no path below a folder")
    return path


def fetch(bucket: Bucket, prefix: str, root: str) -> None:
    """Fetch everything under a prefix. Raises Failed; an empty prefix fails too, since nobody means that."""
    count = total = 0
    for found in bucket.objects(prefix):
        path = path_of(found.key, prefix)
        if path is None:
            continue
        target = os.path.join(root, path)
        noted = os.path.join(root, volume.OWN, "fetched")
        if not _is_there(target, noted, found):
            part = bucket.fetch(found, root) if found.size else _empty(root)
            download.place(part, root, path)
            _note(noted, found)
        count, total = count + 1, total + found.size
    if not count:
        raise ending.Failed(ending.SOURCE_UNAVAILABLE, f"nothing lies under the prefix {prefix!r}")
    print(f"{count} objects, {total} bytes")


def _is_there(target: str, noted: str, found: Found) -> bool:
    """Return whether an earlier try brought this object, in this version."""
    if (
        not os.path.isfile(target)
        or os.path.getsize(target) != found.size
        or os.path.islink(target)
        or not os.path.isfile(noted)
    ):
        return False
    with open(noted, encoding="utf-8") as file:
        return _line(found) in file


def _note(noted: str, found: Found) -> None:
    with download.opened(noted, go_on=True) as file:
        file.write(_line(found).encode())


def _line(found: Found) -> str:
    return f"{found.tag} {quote(found.key, safe='')}\n"


def _empty(root: str) -> str:
    part = os.path.join(root, volume.OWN, "part-empty")
    download.opened(part).close()
    return part


def signing(endpoint: str, who: Credentials) -> download.Headers:
    """Return the function that signs the requests to an endpoint. Another host, to which it redirects, gets no signature."""

    def headers(url: str) -> dict[str, str]:
        is_signed = who.key and url.startswith(f"{endpoint.rstrip('/')}/")
        return signed(url, who, datetime.datetime.now(datetime.UTC)) if is_signed else {}

    return headers


def main() -> None:
    """Run the program. Without credentials in the environment requests aren't signed: the bucket is open to all."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("volume", "job", "endpoint", "bucket", "prefix", "region"):
        arguments.add_argument(f"--{name}", required=True)
    found = arguments.parse_args()
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    who = Credentials(key, secret, found.region)

    bucket = Bucket(download.Web(addresses.connect, signing(found.endpoint, who)), found.endpoint, found.bucket)
    volume.run(lambda: volume.fill(found.volume, found.job, lambda: fetch(bucket, found.prefix, found.volume)))


if __name__ == "__main__":
    main()
