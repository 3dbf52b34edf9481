"""Rule for sending a request again. Pure: looks at what it was given, sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class RequestReplay(NamedTuple):
    """The request of one call, as often as it is needed.

    A single message can always be sent again. Of a stream: a function that makes one, as often as it is
    called; a list or tuple of at most ``messages`` messages and ``size`` bytes (``None``: no limit). Any
    other iterable is sent once: who has read from it cannot read that again.
    """

    given: Any
    streaming: bool
    messages: int | None
    size: int | None

    @property
    def _is_maker(self) -> bool:
        """True if it is a function that makes the stream, and not one that happens to be callable."""
        return callable(self.given) and not hasattr(self.given, "__next__")

    def request(self) -> Any:
        """Return the request for the next attempt."""
        if not self.streaming:
            return self.given
        if self._is_maker:
            return self.given()
        return iter(self.given) if isinstance(self.given, Sequence) else self.given

    def refusal(self) -> str | None:
        """Why it cannot be sent again, or ``None`` if it can."""
        given = self.given
        if not self.streaming or self._is_maker:
            return None
        if not isinstance(given, Sequence):
            return (
                "its request stream is a one-shot iterator, and what it has sent is gone; "
                "pass a list, or a function that makes the stream"
            )
        if self.messages is not None and len(given) > self.messages:
            return f"its request stream has {len(given)} messages, more than replay_messages={self.messages}"
        if self.size is not None and (size := sum(map(size_of, given))) > self.size:
            return f"its request stream has {size} bytes, more than replay_bytes={self.size}"
        return None


def size_of(message: object) -> int:
    """Return the size of a message in bytes: its length, or what protobuf says; 0 if neither is known."""
    if isinstance(message, (bytes, bytearray, memoryview, str)):
        return len(message)
    measure: Callable[[], int] | None = getattr(message, "ByteSize", None)
    return int(measure()) if callable(measure) else 0
