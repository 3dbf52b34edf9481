"""Use of a store in memory by client: one `ClientShare` each, with the largest at hand."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class ClientShare:
    """The keys of one client: those in flight, and those that have ended, the oldest end first."""

    __slots__ = ("answer_bytes", "answers", "ended", "in_progress")

    def __init__(self) -> None:
        self.in_progress: dict[bytes, None] = {}
        self.ended: dict[bytes, None] = {}
        #: The keys whose answers are kept, oldest first, and the size of these.
        self.answers: dict[bytes, int] = {}
        self.answer_bytes = 0

    def __len__(self) -> int:
        return len(self.in_progress) + len(self.ended)


class Shares:
    """The shares of all clients, by size. Adding and removing a key takes constant time."""

    __slots__ = ("_by_size", "_clients", "_largest")

    def __init__(self) -> None:
        self._clients: dict[bytes, ClientShare] = {}
        self._by_size: dict[int, dict[bytes, None]] = {}
        self._largest = 0

    def __len__(self) -> int:
        return len(self._clients)

    def of(self, client: bytes) -> ClientShare | None:
        return self._clients.get(client)

    def add(self, client: bytes, digest: bytes, ended: bool) -> None:
        share = self._clients.get(client)
        if share is None:
            share = self._clients[client] = ClientShare()
        before = len(share)
        (share.ended if ended else share.in_progress)[digest] = None
        self._move(client, before, len(share))

    def remove(self, client: bytes, digest: bytes) -> None:
        share = self._clients[client]
        before = len(share)
        share.in_progress.pop(digest, None)
        share.ended.pop(digest, None)
        self.drop_answer(client, digest)
        self._move(client, before, len(share))
        if not share:
            del self._clients[client]

    def add_answer(self, client: bytes, digest: bytes, size: int) -> None:
        share = self._clients[client]
        share.answers[digest] = size
        share.answer_bytes += size

    def drop_answer(self, client: bytes, digest: bytes) -> None:
        share = self._clients[client]
        share.answer_bytes -= share.answers.pop(digest, 0)

    def largest(self) -> Iterator[tuple[bytes, ClientShare]]:
        """Clients by the number of their keys, largest first."""
        for size in range(self._largest, 0, -1):
            for client in self._by_size.get(size, ()):
                yield client, self._clients[client]

    def _move(self, client: bytes, before: int, after: int) -> None:
        if before:
            same = self._by_size[before]
            del same[client]
            if not same:
                del self._by_size[before]
        if after:
            self._by_size.setdefault(after, {})[client] = None
        # A size changes by one at a time, so that this is at most one step down.
        self._largest = max(self._largest, after)
        while self._largest and self._largest not in self._by_size:
            self._largest -= 1
