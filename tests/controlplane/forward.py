"""Forwards TCP connections: from an address of this machine to the same port of its loopback. Runs as a program of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys

LOOPBACK = "127.0.0.1"
AT_ONCE = 1 << 16  # bytes


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(AT_ONCE):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()


async def forward(address: str, port: int) -> None:
    """Forward until this process ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            upstream_reader, back = await asyncio.open_connection(LOOPBACK, port)
            with contextlib.closing(back):
                await asyncio.gather(_copied(reader, back), _copied(upstream_reader, writer))

    server = await asyncio.start_server(connected, address, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(forward(sys.argv[1], int(sys.argv[2])))
