"""The backend: refuses or serves the attempts that arrive."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ..._primitives.errors import AttemptTimeout, RetryAfter
from ..._strategies.limiter.rules.bucket import Bucket
from .scenario import Scenario
from .service import FirstCome, Queued, Shared, Work
from .timeline import Capacity, Stretch, stretches

if TYPE_CHECKING:
    from .service import Agenda


class BackendError(ConnectionError):
    """Answer of a simulated backend that does not serve: ``status`` 503 or 429."""

    def __init__(self, status: int = 503) -> None:
        super().__init__(f"the simulated backend answered {status}")
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return BackendError, (self.status,)


def reason_of(error: BaseException) -> str:
    """Why an attempt failed, in a word."""
    if isinstance(error, RetryAfter):
        error = error.cause or error
    if isinstance(error, BackendError):
        return str(error.status)
    return "timeout" if isinstance(error, AttemptTimeout) else type(error).__name__


class Refusal:
    """A failure's answer: the status, and the server's hint in seconds (None: no hint)."""

    def __init__(self, status: int, hint: float | None) -> None:
        self.status = status
        self.hint = hint

    def error(self) -> Exception:
        """Return the error that the caller receives."""
        answer = BackendError(self.status)
        return answer if self.hint is None else RetryAfter(self.hint, answer)


#: How a backend answers later: with nothing, or with a failure.
Answer = Callable[[Refusal | None], None]


class Backend:
    """Everything between an attempt's arrival and its answer."""

    def __init__(self, scenario: Scenario, seed: int, agenda: Agenda) -> None:
        self.row: list[Stretch] = stretches(scenario)
        self._changes = 0
        self.now_holds = self.row[0]
        self.until = self.row[1].begins if len(self.row) > 1 else math.inf
        work, capacity = Work(scenario, seed), Capacity(self.row)
        self.discipline: FirstCome | Queued | Shared
        #: True if the end of a piece of work is not known when it arrives.
        self.evented = scenario.order != "fifo" or work.loaded
        if not self.evented:
            self.discipline = FirstCome(scenario, work, capacity)
        else:
            kind = Shared if scenario.order == "shared" else Queued
            self.discipline = kind(scenario, work, capacity, agenda)
        self.serve = self.discipline.serve
        self._draw = Random(f"{seed} errors").random
        rate = scenario.limit_rps
        self._bucket = None if rate is None else Bucket(rate, max(1, round(rate)), 0.0)
        self._refusals: dict[tuple[int, float | None], Refusal] = {}
        self.full = self._refusal(503, scenario.retry_after)
        self._over = self._refusal(429, scenario.retry_after)
        #: When attempts arrived.
        self.received = array("d")
        self._settle_rules()

    def _refusal(self, status: int, hint: float | None) -> Refusal:
        return self._refusals.setdefault((status, hint), Refusal(status, hint))

    def at(self, now: float) -> Stretch:
        """Return the conditions at ``now``. Time only goes forward."""
        while now >= self.until:
            self._changes += 1
            self.now_holds = self.row[self._changes]
            following = self._changes + 1
            self.until = self.row[following].begins if following < len(self.row) else math.inf
            self._settle_rules()
        return self.now_holds

    def _settle_rules(self) -> None:
        """Look up what holds for every attempt until the next change."""
        holds = self.now_holds
        self._failing = self._refusal(503, holds.fail_hint) if holds.fails else None
        self._erring = self._refusal(503, holds.error_hint)
        #: True if everything that arrives now goes straight to be served.
        self.quick = not (holds.parted or holds.fails or holds.error_rate or self._bucket is not None)

    def offer(
        self, now: float, place: float, gone_at: float, done: Answer | None
    ) -> float | Refusal | tuple[float, Refusal] | None:
        """Take an attempt that arrives: return when it is served (inf: never); a refusal at once; when a
        failure is answered, and with what; or None where ``done`` answers later.

        ``place`` in [0, 1) is where its client stands among all, for partitions; ``gone_at`` is when
        the caller will have given up.
        """
        if now >= self.until:
            self.at(now)
        if self.quick:
            self.received.append(now)
        else:
            holds = self.now_holds
            for share, mode in holds.parted:
                if place < share:
                    return math.inf if mode == "hang" else self.full
            self.received.append(now)
            if self._failing is not None:
                if holds.fail_cost == 0.0:
                    return self._failing
                return self._fail(self._failing, holds.fail_cost, now, gone_at, done)
            if holds.error_rate and self._draw() < holds.error_rate:
                if holds.error_cost == 0.0:
                    return self._erring
                return self._fail(self._erring, holds.error_cost, now, gone_at, done)
            if self._bucket is not None and not self._bucket.reserve(1, now, 0.0).ok:
                return self._over
        end = self.serve(now, gone_at, None if done is None else partial(done, None))
        return self.full if end == -1.0 else end

    def _fail(
        self, refusal: Refusal, cost: float, now: float, gone_at: float, done: Answer | None
    ) -> float | Refusal | tuple[float, Refusal] | None:
        """Answer with ``refusal``, after ``cost`` of the usual work."""
        end = self.serve(now, gone_at, None if done is None else partial(done, refusal), cost)
        if end is None:
            return None
        return self.full if end == -1.0 else (end, refusal)
