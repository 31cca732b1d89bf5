"""Images for a real node, written by this program: an archive of the OCI layout, by which containerd takes them in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.controlplane import debian

_BUSYBOX = (
    *"sh cat ls sleep httpd wget nc nslookup id mount df dd ip ping touch rm mkdir chown stat env true tail head ps".split(),
    *"kill test echo sha256sum find mv ln".split(),
)
_LINKS = {f"bin/{name}": "busybox" for name in _BUSYBOX}
_UNREAD = ("usr/share/", "usr/include/", "etc/ssl/")  # of Debian's packages
_TYPES = "application/vnd.oci.image"


class Image(NamedTuple):
    """What an image holds: files by their path, and what runs in it."""

    files: Mapping[str, bytes]
    entrypoint: Sequence[str]
    links: Mapping[str, str] = {}
    user: str = ""


def busybox(*entrypoint: str, files: Mapping[str, bytes] | None = None) -> Image:
    """Return an image with BusyBox's programs, all of them one static file."""
    program = (debian.folder("busybox") / "bin" / "busybox").read_bytes()
    passwd = b"root:x:0:0:root:/root:/bin/sh\n"
    return Image({"bin/busybox": program, "etc/passwd": passwd, **(files or {})}, entrypoint, dict(_LINKS))


@cache
def python(authority: bytes = b"") -> Image:
    """Return the image of preparations: Debian's Python, with BusyBox's programs, that trusts an authority (PEM) alone."""
    files, links = _with_packages("python")
    links["usr/bin/python3"] = "python3.11"
    links["usr/lib/ssl/cert.pem"] = "/etc/ssl/certs/ca-certificates.crt"  # where OpenSSL looks for whom to trust
    return Image({**files, "etc/ssl/certs/ca-certificates.crt": authority}, (), links)


def file_copies(*entrypoint: str) -> Image:
    """Return an image with BusyBox's programs, rsync, and OpenSSH's SFTP server."""
    files, links = _with_packages("file-copies")
    return Image(files, entrypoint, links)


def _with_packages(what: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the files and the links of an image with BusyBox's programs and Debian's packages."""
    shell, unpacked = busybox(), debian.folder(what)
    files, links = dict(shell.files), dict(shell.links)
    for path in unpacked.rglob("*"):
        name = path.relative_to(unpacked).as_posix()
        if name.startswith(_UNREAD):
            continue
        if path.is_symlink():
            links[name] = os.readlink(path)
        elif path.is_file():
            files[name] = path.read_bytes()
    return files, links


def linked(program: Path) -> Image:
    """Return an image of one program that was built on this machine, with the libraries that it is linked with, and no shell."""
    names = ("ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6")
    unpacked = debian.folder("libraries").rglob("*.so.*")
    libraries = {path.name: path for path in unpacked if path.name in names and not path.is_symlink()}
    files = {f"{'lib64' if name.startswith('ld-') else 'lib'}/{name}": libraries[name].read_bytes() for name in names}
    return Image({f"bin/{program.name}": program.read_bytes(), **files}, [f"/bin/{program.name}"])


def archive(images: Mapping[str, Image]) -> bytes:
    """Return an archive of images by the names that they are taken in under, digests and all."""
    blobs: dict[str, bytes] = {}

    def put(kind: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"{_TYPES}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    manifests = []
    for name, image in images.items():
        layer = _layer(image)
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
        run = {
            "Entrypoint": list(image.entrypoint),
            "User": image.user,
            "Env": ["PATH=/bin:/usr/bin"],
            "WorkingDir": "/",
        }
        config = put("config.v1+json", _json({"architecture": "amd64", "os": "linux", "config": run, "rootfs": rootfs}))
        packed = put("layer.v1.tar+gzip", gzip.compress(layer, compresslevel=1, mtime=0))
        manifest = {"schemaVersion": 2, "mediaType": f"{_TYPES}.manifest.v1+json", "config": config, "layers": [packed]}
        named = {"annotations": {"io.containerd.image.name": name}}
        manifests.append(put("manifest.v1+json", _json(manifest)) | named)
    index = {"schemaVersion": 2, "mediaType": f"{_TYPES}.index.v1+json", "manifests": manifests}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    return _tar(files | {f"blobs/sha256/{digest}": data for digest, data in blobs.items()})


def _layer(image: Image) -> bytes:
    return _tar(image.files, image.links)


def _tar(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        folders = {str(parent) for path in (*files, *(links or {})) for parent in Path(path).parents} - {"."}
        for path in sorted({*folders, "tmp"}) if links is not None else sorted(folders):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            tar.addfile(entry)
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for path, target in (links or {}).items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return archive.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
