"""Fetches one file of the internet, by its URL and SHA-256."""

from __future__ import annotations

import argparse
import os

from . import addresses, download, ending, volume


def fetch(web: download.Web, url: str, sha256: str, path: str, root: str) -> None:
    """Fetch a file to a path below `root`. Raises Failed, CHECKSUM_MISMATCH among others."""
    target = os.path.join(root, path)
    if not os.path.islink(target) and os.path.isfile(target) and download.digest(target) == sha256:
        print(f"{path!r} is there already")
        return
    part = download.fetch(web, download.Wanted(url, sha256), root)
    found = download.digest(part)
    if found != sha256:
        os.unlink(part)
        words = f"{url.partition('?')[0]!r} has the SHA-256 {found}, and {sha256} is declared"
        raise ending.Failed(ending.CHECKSUM_MISMATCH, words)
    download.place(part, root, path)
    print(f"{path!r}: {os.path.getsize(target)} bytes")


def main() -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("volume", "job", "url", "sha256", "path"):
        arguments.add_argument(f"--{name}", required=True)
    found = arguments.parse_args()
    web = download.Web(addresses.connect)
    volume.run(
        lambda: volume.fill(
            found.volume, found.job, lambda: fetch(web, found.url, found.sha256, found.path, found.volume)
        )
    )


if __name__ == "__main__":
    main()
