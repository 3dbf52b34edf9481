"""ASGI's messages: reading headers, sending an answer of ours, and observing an answer."""

from __future__ import annotations

from .._server.problem import SPREAD, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from typing import Any, TypeAlias


Connection: TypeAlias = "MutableMapping[str, Any]"
Message: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[Message]]"
Send: TypeAlias = "Callable[[Message], Awaitable[None]]"
App: TypeAlias = "Callable[[Connection, Receive, Send], Awaitable[None]]"


def values(connection: Connection, name: str) -> list[bytes]:
    """Every value of a header, by its lower-case name."""
    wanted = name.encode()
    return [value for key, value in connection.get("headers", ()) if key.lower() == wanted]


def finder(connection: Connection) -> Callable[[str], list[str]]:
    """`values` as text, for the rules in `_server.request_facts`."""
    return lambda name: [value.decode("latin-1") for value in values(connection, name)]


async def answer(send: Send, problem: Problem, draw: Callable[[], float], spread: float = SPREAD) -> None:
    """Send ``problem`` as the whole answer."""
    pairs = [(name.encode(), value.encode()) for name, value in problem.headers(draw, spread)]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": problem.body()})


class WatchedSend:
    """A ``send`` that remembers whether the answer has begun, and calls ``ended`` once it is sent."""

    __slots__ = ("_ended", "_send", "began", "status")

    def __init__(self, send: Send, ended: Callable[[], object] | None = None) -> None:
        self._send = send
        self._ended = ended
        self.began = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            self.status = message["status"]
        await self._send(message)
        if self._ended is not None and is_last(message):
            self._ended()


def is_last(message: Message) -> bool:
    """Return True if ``message`` ends the answer."""
    return message["type"] == "http.response.body" and not message.get("more_body", False)
