"""How every call ended, and how late: what is not documented is a failure, kept with its traceback."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import Counter
from typing import Any

import httpx

import stormproof as sp

from .policies import CONNECTIONS
from .scheduler_lag import Lag
from .treatments import body_of

#: Stormproof's own refusals that may come out of a client (docs/http.md).
REFUSALS = (
    sp.CircuitOpen,
    sp.BulkheadFull,
    sp.RateLimited,
    sp.DeadlineExceeded,
    sp.AttemptTimeout,
    sp.Cancelled,
)
#: So many undocumented ends are kept whole; the others are counted.
_KEPT = 10
_LATEST = 5
#: A call may be later by this many of the worst turns that the event loop (or the interpreter, for threads)
#: took around that moment. A task takes about ten to unwind; and one more for each expired connection of its
#: pool, which httpcore closes one by one, shielded, when it looks for a free one.
TURNS = {"tasks": 10 + CONNECTIONS, "threads": 3}


class Undocumented(Exception):
    """A call that ended as no page says it may."""


def name_of(outcome: Any, path: str, cancelled: bool) -> str:
    """The documented name of how a call ended. Raises `Undocumented`, with the outcome as its cause.

    ``cancelled``: the caller called it off, by its task or its scope.
    """
    if isinstance(outcome, httpx.Response):
        return _answer(outcome, path)
    if isinstance(outcome, (asyncio.CancelledError, sp.Cancelled)):
        if not cancelled:
            raise Undocumented("cancelled, but not by its caller") from outcome
        return "called off by the caller"
    ours = next((kind.__name__ for kind in REFUSALS if isinstance(outcome, kind)), None)
    theirs = type(outcome).__name__ if isinstance(outcome, httpx.TransportError) else None
    if ours is not None:
        return f"{ours} (and httpx.{theirs})" if theirs else ours
    if theirs is None:
        raise Undocumented(f"{type(outcome).__name__} is in no table") from outcome
    return f"httpx.{theirs}"


def _answer(response: httpx.Response, path: str) -> str:
    if response.status_code == 200:
        asked = response.request.url.raw_path.decode()
        if not asked.endswith(path) or response.content != body_of(asked):
            raise Undocumented(
                f"an answer that is not whole, or to another question: {response.content!r:.80}"
            )
        return "200, whole"
    if response.status_code not in (429, 500, 502, 503):
        raise Undocumented(f"a {response.status_code} that nobody sent")
    mark = response.extensions.get("stormproof")
    why = "unmarked" if mark is None else "retried in vain" if mark.attempts > 1 else "not retried"
    return f"{response.status_code}, {why}"


class Ledger:
    """Counts for threads and tasks alike."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ended: Counter[str] = Counter()
        self.failures: list[str] = []
        self.failed = 0
        self.in_flight = 0
        #: For tasks and for threads: the ends past the deadline, the latest first, with the lag around them.
        self.late: dict[str, list[tuple[float, float, str]]] = {"tasks": [], "threads": []}

    def begin(self) -> None:
        with self._lock:
            self.in_flight += 1

    def end(self, outcome: Any, path: str, cancelled: bool) -> str:
        """Book how a call ended; gives the name of it."""
        trace: str | None = None
        try:
            name = name_of(outcome, path, cancelled)
        except Undocumented as error:
            name = f"UNDOCUMENTED: {error}"
            # Formatting takes long enough to be seen in the lag.
            trace = "".join(traceback.format_exception(error)) if len(self.failures) < _KEPT else ""
        with self._lock:
            self.in_flight -= 1
            self.ended[name] += 1
            if trace is not None:
                self.failed += 1
                if len(self.failures) < _KEPT:
                    self.failures.append(trace)
        return name

    def was_late(self, who: str, by_s: float, name: str, lag: Lag) -> None:
        """A call of ``who`` came back ``by_s`` seconds after its deadline, as ``name``."""
        with self._lock:
            late = self.late[who]
            late.append((by_s, lag.worst(by_s + 1), name))
            late.sort(key=lambda each: TURNS[who] * each[1] - each[0])
            del late[_LATEST:]
