"""What a process holds: memory, descriptors, threads, and the complaints that nobody was there to hear."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

_KEPT = 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Malloc(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def _mallinfo() -> Callable[[], _Malloc] | None:
    try:
        ask = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):
        # Not glibc, or an old one.
        return None
    ask.restype = _Malloc
    return ask


_ask = _mallinfo()


def resident_mb() -> float:
    """The memory that this process has in RAM."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE / 1e6


def free_mb() -> float:
    """What of it the C library keeps for itself, given back by the program; 0 where it does not say."""
    return 0.0 if _ask is None else _ask().fordblks / 1e6


def descriptors() -> Counter[str]:
    """The open file descriptors by kind: "socket", "pipe", a path."""
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            # The one that lists them.
            continue
        found[target.partition(":")[0]] += 1
    return found


class Pools:
    """The connections in the pools of httpx's clients, and those of them that are lost."""

    def __init__(self, clients: Iterable[Any]) -> None:
        self._pools = [client._transport._inner._pool for client in clients]
        self._suspects: weakref.WeakSet[Any] = weakref.WeakSet()

    def look(self) -> tuple[int, int]:
        """How many there are; and how many are taken, by no request, now as at the last look."""
        there, suspects = 0, []
        for pool in self._pools:
            # What takes a connection is noted after the connection is, and let go of before it is.
            connections = list(pool._connections)
            taken = {id(request.connection) for request in list(pool._requests)}
            there += len(connections)
            suspects += [
                each
                for each in connections
                if id(each) not in taken and not (each.is_idle() or each.is_closed())
            ]
        lost = sum(each in self._suspects for each in suspects)
        self._suspects = weakref.WeakSet(suspects)
        return there, lost


def threads() -> Counter[str]:
    """The living threads by name, without the numbers in them."""
    return Counter(thread.name.rstrip("0123456789_-") for thread in threading.enumerate())


def survivors(*modules: str) -> Counter[str]:
    """Objects of these modules' classes that are still there after a collection, by class."""
    gc.collect()
    gc.collect()
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if kind.__module__.startswith(modules):
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
    return found


class Complaints(logging.Handler):
    """Collects what is said when nobody listens: warnings, lost exceptions, errors in the log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0
        self.heard: list[str] = []

    def listen(self) -> None:
        warnings.simplefilter("always", ResourceWarning)
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = lambda message, category, *where, **more: self._hear(
            f"{category.__name__}: {message}"
        )
        sys.unraisablehook = lambda lost: self._hear(f"unraisable in {lost.object!r}: {lost.exc_value!r}")
        threading.excepthook = lambda lost: self._hear(f"thread {lost.thread}: {lost.exc_value!r}")
        logging.getLogger().addHandler(self)

    def hear_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.set_exception_handler(lambda _, context: self._hear(_text(context)))

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(f"{record.name}: {record.getMessage()}")

    def _hear(self, text: str) -> None:
        self.count += 1
        if len(self.heard) < _KEPT:
            self.heard.append(text[:500])


def _text(context: dict[str, Any]) -> str:
    return f"event loop: {context.get('message')} {context.get('exception')!r}"
