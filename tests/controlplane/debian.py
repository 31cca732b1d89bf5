"""What the test bed takes from Debian without installing it: packages, unpacked into the cache of the control plane."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane import programs
from tests.controlplane.programs import NotBuilt, create_atomically

# By what they are for, with the libraries that the machine may lack.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "seccomp": ("libseccomp-dev",),  # runc is linked with it
    "nft": ("nftables", "libnftables1", "libnftnl11", "libjansson4", "libmnl0", "libedit2", "libxtables12", "libgmp10"),
    "busybox": ("busybox-static",),  # the programs of an image that has no others
    "python": (  # the image of preparations
        *"python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 zlib1g libexpat1".split(),
        *"libssl3 libcrypt1 libffi8 libbz2-1.0 liblzma5".split(),
    ),
    "file-copies": (  # what `sftp` and `rsync` need in an image
        *"openssh-sftp-server rsync libc6 libssl3 zlib1g libpopt0 libxxhash0 libzstd1 liblz4-1 libacl1".split(),
    ),
    "libraries": ("libc6", "libgcc-s1"),  # what a program of Rust's, built here, is linked with
}
_PINNED = "VERSION_ID"
RELEASE = "12"  # whose packages these are, by their names


def release() -> str:
    """Return the release of Debian that this machine runs, such as 12; its packages are those of one version only."""
    return _system().get(_PINNED, "")


def _system() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:  # no distribution that says which it is
        return {}


def home(what: str) -> Path:
    """Return the folder of the cache that packages are unpacked in; it is there once they are."""
    key = hashlib.sha256(repr(PACKAGES[what]).encode()).hexdigest()[:12]
    return programs.CACHE / f"debian-{release()}-{what}-{key}"


def folder(what: str) -> Path:
    """Return the folder that packages are unpacked in. Raises NotBuilt."""
    if (path := home(what)).is_dir():
        return path
    raise NotBuilt(f"Debian's {' '.join(PACKAGES[what])}")


def library_path(what: str) -> Path:
    """Return the folder of unpacked shared libraries. Raises NotBuilt."""
    return next(folder(what).glob("usr/lib/*-linux-gnu"))


def missing() -> list[str]:
    """Return what isn't unpacked yet."""
    return [what for what in PACKAGES if not home(what).is_dir()]


def why_not() -> str | None:
    """Return why nothing can be fetched and unpacked here; None where it can, or is there already."""
    if not missing():
        return None
    if (_system().get("ID"), release()) != ("debian", RELEASE):
        return f"its packages are those of Debian {RELEASE}"
    lacking = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    return f"Debian's {' and '.join(lacking)} are needed to unpack packages" if lacking else None


def build() -> None:
    """Fetch and unpack what is missing. Raises NotBuilt where Debian's programs aren't there, or know no such package."""
    for what in missing():
        if why := why_not():
            raise NotBuilt(f"{', '.join(PACKAGES[what])}: {why}")
        print(f"Debian's {' '.join(PACKAGES[what])} …", flush=True)
        with create_atomically(home(what)) as target:
            fetched = target.parent / "packages"
            fetched.mkdir(mode=0o755)
            _fetch(PACKAGES[what], fetched)
            for package in sorted(fetched.glob("*.deb")):
                subprocess.run(["dpkg-deb", "--extract", str(package), str(target)], check=True)


def _fetch(packages: tuple[str, ...], into: Path) -> None:
    """Fetch packages, which apt-get verifies; its lists are read anew where they are old or absent."""
    run = ["apt-get", "download", "-qq", *packages]
    environment = {**os.environ, "LC_ALL": "C"}
    first = subprocess.run(run, cwd=into, env=environment, capture_output=True, text=True, check=False)
    if first.returncode == 0:
        return
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False)
    done = subprocess.run(run, cwd=into, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(f"`{' '.join(run)}` ended with {done.returncode}: {done.stderr.strip()}")
