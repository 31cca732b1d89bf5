"""A pack that is short and unfolds to much: deltas of one blob, each of which Git makes whole to look at it."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import zlib
from pathlib import Path

from tests.adapters.git.malformed import write

MOST_COPIED = 0xFFFFFF  # bytes by one step of a delta
OFFSET_DELTA, BLOB = 6, 3  # kinds of objects in a pack


def pack(size: int, count: int) -> bytes:
    """Return a pack of a blob of so many zeros and of deltas of it: each is the same behind eight bytes of its own."""
    pack_bytes = bytearray(b"PACK" + struct.pack(">II", 2, 1 + count))
    first = len(pack_bytes)
    pack_bytes += _header(BLOB, size) + zlib.compress(bytes(size), 9)
    for number in range(count):
        delta = _number(size) + _number(size + 8) + b"\x08" + struct.pack(">Q", number + 1)
        for at in range(0, size, MOST_COPIED):
            delta += b"\xff" + struct.pack("<I", at) + struct.pack("<I", min(MOST_COPIED, size - at))[:3]
        pack_bytes += _header(OFFSET_DELTA, len(delta)) + _offset(len(pack_bytes) - first) + zlib.compress(delta)
    return bytes(pack_bytes) + hashlib.sha1(pack_bytes).digest()


def _number(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _header(kind: int, size: int) -> bytes:
    low, rest = (kind << 4) | (size & 15), size >> 4
    return bytes([low | 0x80]) + _number(rest) if rest else bytes([low])


def _offset(back: int) -> bytes:
    groups = [back & 0x7F]
    while back := back >> 7:
        back -= 1
        groups.insert(0, 0x80 | (back & 0x7F))
    return bytes(groups)


def write_deltas(bare: Path, parent: str, size: int, count: int) -> str:
    """Write a commit that holds all of them into a repository; return its id."""
    words = ["git", "-C", str(bare)]
    done = subprocess.run([*words, "index-pack", "--stdin"], input=pack(size, count), capture_output=True, check=True)
    name = done.stdout.decode().split()[-1]
    index = (bare / f"objects/pack/pack-{name}.idx").read_bytes()
    listed = subprocess.run(["git", "show-index"], input=index, capture_output=True, check=True).stdout
    blobs = [line.split()[1].decode() for line in listed.splitlines()]
    entries = b"".join(b"100644 f%04d\0" % at + bytes.fromhex(blob) for at, blob in enumerate(blobs))
    tree = write(bare, "tree", entries)
    who = "a <a@b.example> 1 +0000"
    return write(bare, "commit", f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
