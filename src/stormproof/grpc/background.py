"""One event loop in a thread of its own, for sync futures: they cost no thread each while they wait."""

from __future__ import annotations

import asyncio
import threading

from .._runtime.forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable, Coroutine
    from typing import Any

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def submit(work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
    """Run ``work`` in the background, in a copy of this context. Cancelling the future cancels it."""
    try:
        loop = _running()
    except BaseException:
        work.close()
        raise
    return asyncio.run_coroutine_threadsafe(work, loop)


def later(seconds: float, work: Callable[[], object]) -> Callable[[], object]:
    """Call ``work`` in the background after ``seconds``; what is returned calls it off."""
    loop = _running()
    timers: list[asyncio.TimerHandle] = []
    is_off = threading.Event()

    def begin() -> None:
        if not is_off.is_set():
            timers.append(loop.call_later(seconds, lambda: None if is_off.is_set() else work()))

    def call_off() -> None:
        is_off.set()
        if timers:
            loop.call_soon_threadsafe(timers[0].cancel)

    loop.call_soon_threadsafe(begin)
    return call_off


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            try:
                # A daemon: it waits for work until the process ends.
                threading.Thread(target=loop.run_forever, name="stormproof-grpc", daemon=True).start()
            except BaseException:
                # Where no thread can be had now, another call may find one.
                loop.close()
                raise
            _loop = loop
        return _loop


@after_fork
def _renew() -> None:
    # Threads do not survive a fork, so the child makes a loop of its own.
    global _lock, _loop
    _lock = threading.Lock()
    _loop = None
