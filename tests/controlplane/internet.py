"""What plays the internet to a world: a network of its own behind a link, with a web server at each address, DNS and a registry.

It is a namespace that only the process holds which serves all of it: it goes with the world, however that ends.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

from tests.controlplane import crates, images, issuer, processes, programs, registry, secure
from tests.controlplane.world import World

PUBLIC = "93.184.215.14"  # of the internet to what we render: in no range that belongs to nobody
NAMESERVER = "93.184.215.53"
METADATA = "169.254.169.254"  # where a cloud tells a machine its credentials
PRIVATE = "10.200.0.1"  # a neighbour in the owner's network
MODELS, BUCKETS = "93.184.215.20", "93.184.215.21"  # files and an S3 server, by HTTPS
ISSUER = "93.184.215.30"  # of logins, by HTTPS
HTTPS_NAMES: Mapping[str, str] = {"models.example.com": MODELS, "s3.example.com": BUCKETS, issuer.HOST: ISSUER}
NAMES: Mapping[str, str] = {"www.example.com": PUBLIC, **HTTPS_NAMES}
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "not-a-secret"  # of the S3 server
PLAIN = {MODELS: 8001, BUCKETS: 8002, ISSUER: 8003}  # the ports behind
NODE, INTERNET = "10.90.0.1", "10.90.0.2"  # of the link, the same in each world
# What there is of it. The world has no default route, so who asks for another address hears at once that there is none.
RANGES = f"93.184.215.0/24 {METADATA} {PRIVATE}"
HTTP, DNS = 80, 53
REGISTRY = f"{PUBLIC}:5000"
_SCRIPT = f"""
ip link set lo up
for address in {PUBLIC} {MODELS} {BUCKETS} {ISSUER} {NAMESERVER} {METADATA} {PRIVATE}; do ip addr add $address/32 dev lo; done
ip link add eth0 type veth peer name internet netns 1
ip addr add {INTERNET}/30 dev eth0
ip link set eth0 up
nsenter --target 1 --net ip addr add {NODE}/30 dev internet
nsenter --target 1 --net ip link set internet up
for range in {RANGES}; do nsenter --target 1 --net ip route add $range via {INTERNET}; done
ip route add default via {NODE}
"""


def folder(world: World) -> Path:
    """Return the folder of a world's internet."""
    return world.folder / "internet"


def start(world: World) -> None:
    """Join a world to an internet of its own, and return once that answers. Raises NotStarted."""
    folder(world).mkdir(exist_ok=True)
    for served_folder in (files(world), buckets(world)):
        served_folder.mkdir(exist_ok=True)
    secure.certify(folder(world), [*HTTPS_NAMES])
    issuer.prepare(folder(world))
    ready = folder(world) / "ready"
    ready.unlink(missing_ok=True)
    serve = shlex.join([sys.executable, "-m", "tests.controlplane.internet", str(folder(world))])
    command = ["unshare", "--net", "sh", "-ec", f"{_SCRIPT}exec {serve}"]
    started = processes.start(world.folder, "internet", world.inside(command), programs.OWN)
    started.wait_until(ready.exists, 20)


def offer(world: World, offered: Mapping[str, images.Image]) -> dict[str, str]:
    """Put images into the registry that plays every registry; return by which digest each can be pulled."""
    return registry.put(_images(folder(world)), offered)


def files(world: World) -> Path:
    """Return the folder whose files are https://models.example.com."""
    return folder(world) / "files"


def buckets(world: World) -> Path:
    """Return the folder whose folders are the buckets of https://s3.example.com."""
    return folder(world) / "buckets"


def authority(world: World) -> bytes:
    """Return the certificate of who vouches for the internet's servers, as PEM."""
    return (folder(world) / secure.AUTHORITY).read_bytes()


@contextmanager
def held(world: World) -> Iterator[None]:
    """Let connections to files and buckets get no further than some mebibyte for a while."""
    mark = folder(world) / secure.HELD
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def asked_of_files(world: World) -> list[str]:
    """Return a line for each request that the files were asked by: path, status, and the range."""
    log = folder(world) / "files.log"
    return log.read_text(encoding="utf-8").splitlines()


def _images(place: Path) -> Path:
    return place / "registry"


class Web(BaseHTTPRequestHandler):
    """Says which address was asked."""

    def do_GET(self) -> None:
        """Answer with the address by which the asker came."""
        body = f"{self.connection.getsockname()[0]}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(query: bytes, names: Mapping[str, str] = NAMES) -> bytes:
    """Return what a nameserver answers that knows these names with an IPv4 address each, and no others."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    question = query[12 : at + 5]
    address = names.get(".".join(labels))
    asks_for_it = question[-4:] == b"\0\1\0\1"  # an address of IPv4
    record = b""
    if address and asks_for_it:
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x05\0\4" + IPv4Address(address).packed
    flags = b"\x85\x80" if address else b"\x85\x83"  # with authority; that there is none
    return query[:2] + flags + b"\0\1" + (b"\0\1" if record else b"\0\0") + b"\0\0\0\0" + question + record


def _resolve(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server_socket:
        server_socket.bind((address, DNS))
        while True:
            query, asker = server_socket.recvfrom(512)
            with suppress(IndexError, UnicodeDecodeError):  # no question: whoever sent it gets no answer
                server_socket.sendto(answer(query), asker)


def _serve_files(place: Path) -> None:
    """Serve files and buckets, each by a program of its own behind HTTPS."""
    files_command = [str(crates.program("dufs")), "--log-format", "$request $status $http_range", str(place / "files")]
    files_command += ["--bind", "127.0.0.1", "--port", str(PLAIN[MODELS])]
    s3_command = [str(crates.program("s3s-fs")), "--host", "127.0.0.1", "--port", str(PLAIN[BUCKETS])]
    s3_command += ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, str(place / "buckets")]
    for name, command in (("files", files_command), ("buckets", s3_command)):
        with (place / f"{name}.log").open("ab") as log:
            subprocess.Popen(command, stdout=log, stderr=log)
    for address, plain in PLAIN.items():
        served = partial(asyncio.run, secure.serve(place, address, plain))
        threading.Thread(target=served, daemon=True).start()


def main(words: Sequence[str]) -> None:
    """Serve until the world ends."""
    (place,) = words
    threading.Thread(target=_resolve, args=(NAMESERVER,), daemon=True).start()
    address, _, port = REGISTRY.partition(":")
    offering = registry.server(_images(Path(place)), address, int(port))
    threading.Thread(target=offering.serve_forever, daemon=True).start()
    web = ThreadingHTTPServer(("", HTTP), Web)
    _serve_files(Path(place))
    threading.Thread(target=issuer.serve, args=(Path(place), PLAIN[ISSUER]), daemon=True).start()
    Path(place, "ready").touch()
    web.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
