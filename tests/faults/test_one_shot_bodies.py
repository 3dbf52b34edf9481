"""Request bodies that can be read once: sent whole, never a second time, never half or empty."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.support.http.clients import OneShot
from tests.support.http.each_client import Http, each_client, each_client_that_takes_files, retry
from tests.support.http.server import Step, answer, half, hang, late, reset, unused_port

import stormproof as sp

pytestmark = pytest.mark.proves("fault one-shot-bodies")

CHUNKS = (b"one ", b"two ", b"three")
WHOLE = b"".join(CHUNKS)

#: What happens to the first request, all of which would be retried with a body that can be had again.
MISHAPS: dict[str, Step] = {
    "503": answer(503, b"why"),
    "reset": reset(),
    "half": half(b"half"),
    "hang": hang(),
}


class Counted(OneShot):
    """Says how often it was read, and how far."""

    def __init__(self) -> None:
        super().__init__(*CHUNKS)
        self.begun = 0

    def sync(self) -> Iterator[bytes]:
        self.begun += 1
        yield from self.chunks

    async def aio(self) -> AsyncIterator[bytes]:
        self.begun += 1
        for chunk in self.chunks:
            yield chunk


async def _put(http: Http, path: str, body: Any, within: float = 30.0) -> tuple[Any, Any]:
    """Return the answer's status and the error of one PUT; ``within`` is long unless the server hangs."""
    try:
        got = await http.client(retry()).request("PUT", path, body=body, timeout=within)
    except http.kind.family as error:
        return None, error
    return got.status, None


@each_client
async def test_one_shot_body_is_sent_once_in_every_mishap(
    http: Http, measured: Callable[[str], None]
) -> None:
    for name, step in MISHAPS.items():
        path, body = f"/{name}", Counted()
        http.server.on(path, step, answer(200))
        timeout = 1.0 if name == "hang" else 30.0
        status, error = await _put(http, path, body, timeout)
        assert (status == 503) if name == "503" else (status is None and error is not None), name
        assert [seen.body for seen in http.server.requests(path)] == [WHOLE], name
        assert body.begun == 1
        # The same with bytes shows that it was the body that stood in the way.
        http.server.on(f"{path}-again", step, answer(200))
        assert (await _put(http, f"{path}-again", WHOLE, timeout))[0] == 200
        assert [seen.body for seen in http.server.requests(f"{path}-again")] == [WHOLE] * 2
    measured(f"{http.kind.__name__}: {len(MISHAPS)} mishaps, each one-shot body sent once and whole")


@each_client
async def test_one_shot_body_gives_up_with_reason_unrepeatable(http: Http) -> None:
    events: list[Any] = []
    http.server.on("/", reset())
    stop = sp.subscribe(events.append)
    try:
        _, error = await _put(http, "/", Counted())
    finally:
        stop()
    assert any("read only once" in note for note in error.__notes__)
    assert [(type(event).__name__, event.reason) for event in events] == [("GaveUp", "unrepeatable")]


@each_client
async def test_one_shot_body_not_yet_read_may_still_be_sent(http: Http) -> None:
    """Nothing is read while the connection is refused. urllib3 takes hold of it before that: one attempt."""
    body = Counted()
    with pytest.raises(http.kind.refused) as caught:
        await http.client(retry(attempts=3)).request(
            "PUT", f"http://127.0.0.1:{unused_port()}/", body=body, timeout=0.5
        )
    said = "read only once" if http.kind.closed_by_collector else "3 attempts"
    assert any(said in note for note in caught.value.__notes__)
    assert body.begun == 0


@each_client
async def test_one_shot_body_is_not_hedged(http: Http) -> None:
    http.server.on("/", late(0.15, answer(200, b"slow")), answer(200, b"fast"))
    policy = sp.Policy(sp.Hedge(after=0.01, idempotent=True, budget=sp.Budget(burst=10)))
    body = Counted()
    got = await http.client(policy).request("PUT", "/", body=body)
    assert (got.body, [seen.body for seen in http.server.seen]) == (b"slow", [WHOLE])
    assert body.begun == 1


class Pipe(io.RawIOBase):
    """A file that does not go back."""

    def __init__(self, content: bytes) -> None:
        self._left = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._left.readinto(buffer)


@each_client_that_takes_files
async def test_file_that_cannot_seek_is_sent_once(http: Http) -> None:
    http.server.on("/", answer(503), answer(200))
    assert (await _put(http, "/", io.BufferedReader(Pipe(WHOLE))))[0] == 503
    assert [seen.body for seen in http.server.seen] == [WHOLE]
