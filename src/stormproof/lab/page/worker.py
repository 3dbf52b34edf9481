"""The process in which the page's runs happen: jobs come in as JSON lines, what becomes of them goes out.

In: ``{"job": 1, "toml": ..., "name": ..., "scenario": ..., "values": {...}, "seed": 1}`` and
``{"cancel": 1}``. Out: ``ready``, then for each job ``progress`` lines and one of ``done``, ``cancelled``
or ``error``. Nothing is pickled and nothing is evaluated. It ends when its input does, so it cannot
outlive the server.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
import warnings
from typing import Any, TextIO

from ..._policy.checks import PolicyWarning
from ..model.scenario import Scenario
from . import policy as page_policy
from . import scenario as page_scenario

#: Curves are sent no more often than this: encoding them takes time from the run.
_EVERY_S = 0.08
_DIGITS = 5
#: What a run may allocate before it is refused; the machine is the reader's own.
_MOST_BYTES = 4 * 1024**3


class PageRun:
    """One run: sends its progress, and stops when it has been cancelled."""

    def __init__(self, number: int, out: Out, cancelled: set[int]) -> None:
        self._number = number
        self._out = out
        self._cancelled = cancelled
        self._sent = -math.inf

    @property
    def stopped(self) -> bool:
        return self._number in self._cancelled

    def progress(self, state: Any) -> bool:
        """Called by the engine. False stops the run."""
        now = time.monotonic()
        if not self.stopped and now - self._sent >= _EVERY_S:
            self._sent = now
            series = columns(state.series)
            self._out.send(self._number, "progress", now=state.now, until=state.until, series=series)
        return not self.stopped

    def play(self, request: dict[str, Any]) -> None:
        try:
            data = self._simulate(request)
        except Exception as error:
            if not self.stopped:
                self._out.send(self._number, "error", message=_explained(error), field=None)
                return
            data = None
        if self.stopped:
            self._out.send(self._number, "cancelled")
        else:
            self._out.send(self._number, "done", data=data)

    def _simulate(self, request: dict[str, Any]) -> dict[str, Any]:
        from ..simulate import simulate

        policy = page_policy.read(request["toml"], request["name"]).policy
        scenario = page_scenario.make(request["scenario"], request["values"], request.get("file"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PolicyWarning)
            result = simulate(policy, scenario, seed=request["seed"], progress=self.progress)
        data: dict[str, Any] = result.to_data()
        data["runs"][0]["notes"] += [str(warning.message) for warning in caught]
        return data


class Out:
    """The way back to the server: one JSON object per line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def send(self, job: int | None, kind: str, **more: object) -> None:
        from ..results.report import finite

        self._stream.write(json.dumps(finite({"job": job, "type": kind, **more}), allow_nan=False) + "\n")
        self._stream.flush()


def columns(series: Any) -> dict[str, list[float | None]]:
    """The columns as lists with few digits; null for a missing value."""
    return {name: [_short(value) for value in series[name]] for name in series}


def _short(value: Any) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def _explained(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "the run needs more memory than the page allows: choose fewer clients or a shorter run"
    return f"{type(error).__name__}: {error}"[:500]


def _listen(jobs: queue.SimpleQueue[dict[str, Any] | None], cancelled: set[int]) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "cancel" in message:
            cancelled.add(message["cancel"])
        else:
            jobs.put(message)
    jobs.put(None)
    # The server has gone: no reader is left for a run that goes on.
    threading.Timer(1.0, os._exit, (0,)).start()


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MOST_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MOST_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _warm_up() -> None:
    """Import what a first run would have to wait for.

    The fast engine, for runs of many calls, is left to the first of these: to compile it takes far longer
    than the runs that most readers begin with, and once it is done, later processes find it on disk.
    """
    from ..simulate import simulate

    policy = page_policy.read("[policies.warm-up]\nretry = {}\n").policy
    simulate(policy, Scenario(clients=2, arrival_rps=2, duration=2))


def main() -> None:
    """Serve jobs until the input ends."""
    # Whatever else prints must not get between the lines.
    out = Out(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    _bound_memory()
    _warm_up()
    out.send(None, "ready")
    jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    cancelled: set[int] = set()
    threading.Thread(target=_listen, args=(jobs, cancelled), daemon=True).start()
    while (request := jobs.get()) is not None:
        PageRun(request["job"], out, cancelled).play(request)
        cancelled.discard(request["job"])


if __name__ == "__main__":
    main()
