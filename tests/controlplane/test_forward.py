"""What forwards TCP: bytes arrive both ways, and an end on one side is one on the other."""

from __future__ import annotations

import asyncio

from tests.controlplane.forward import forward


def test_bytes_come_through_both_ways() -> None:
    async def tried() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.read()).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        forwarding = asyncio.create_task(forward("127.0.0.2", port))
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("127.0.0.2", port)
        writer.write(b"x" * 200_000)
        writer.write_eof()
        response = await reader.read()
        writer.close()
        await writer.wait_closed()
        forwarding.cancel()
        await asyncio.gather(forwarding, return_exceptions=True)
        server.close()
        await server.wait_closed()
        return response

    assert asyncio.run(asyncio.wait_for(tried(), 10)) == b"X" * 200_000
