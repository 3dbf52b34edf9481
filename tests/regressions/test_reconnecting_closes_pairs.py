"""`reconnecting(lambda: asyncio.open_connection(...))` closed nothing, as a pair of streams has no `close`:
one socket leaked with every reconnect."""

from __future__ import annotations

import asyncio

import stormproof as sp


def test_reconnecting_closes_the_writer_of_an_open_connection_pair() -> None:
    writers: list[asyncio.StreamWriter] = []
    ended: list[bool] = []

    async def main() -> None:
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ended.append(await reader.read() == b"")
            writer.close()
            if len(ended) == 3:
                over.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        policy = sp.Policy(sp.Retry(on=OSError, backoff=sp.Constant(0)))
        async with sp.reconnecting(lambda: asyncio.open_connection(host, port), policy=policy) as connections:
            async for _, writer in connections:
                writers.append(writer)
                if len(writers) == 3:
                    break
        assert all(writer.is_closing() for writer in writers)
        server.close()
        async with asyncio.timeout(10):
            await over.wait()

    asyncio.run(main())
    assert ended == [True] * 3


class Part:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_reconnecting_in_a_thread_closes_every_part_of_a_tuple() -> None:
    made: list[tuple[Part, str, Part]] = []

    def connect() -> tuple[Part, str, Part]:
        made.append((Part(), "name", Part()))
        return made[-1]

    with sp.reconnecting(connect) as connections:
        for _ in connections:
            if len(made) == 2:
                break
    assert [(first.closed, last.closed) for first, _, last in made] == [(1, 1), (1, 1)]
