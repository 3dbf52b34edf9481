"""Six ways to say "retry this"."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def _patched_sleep() -> Iterator[list[float]]:
    """The waits asked of `time.sleep`, which returns at once. For libraries that record none themselves."""
    from unittest import mock  # dear, and not every cell needs it

    waits: list[float] = []
    with mock.patch("time.sleep", waits.append):
        yield waits


def _but_value_error(error: BaseException) -> bool:
    return not isinstance(error, ValueError)


class Retrier:
    """What the probes ask of a library. ``on`` is `ConnectionError` everywhere."""

    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        """So many attempts, a fixed wait between them."""
        raise NotImplementedError

    def bounded(self, limit: float, wait: float) -> Decorator:
        """Any number of attempts within ``limit`` seconds in all, a fixed wait between them."""
        raise NotImplementedError

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        """Exponential waits from ``base`` up to ``cap``."""
        raise NotImplementedError

    def but_value_error(self) -> Decorator:
        """4 attempts on whatever `_but_value_error` says yes to, no wait.

        The same predicate for all, and no type beside it. A library that has to be told a type as well is
        told how far it may go (`Exception`, `BaseException`), which is another question.
        """
        raise NotImplementedError

    def default(self) -> Decorator:
        """Only what must be said: which error, and 4 attempts."""
        raise NotImplementedError

    def jittered(self) -> Decorator:
        """4 attempts with the jitter the library recommends."""
        return self.default()

    def budgeted(self) -> Decorator:
        """4 attempts, with a limit on retries across calls where there is one."""
        return self.default()

    def recorded(self) -> AbstractContextManager[list[float]]:
        """Inside it waits are free, and listed."""
        return _patched_sleep()

    def told(self, log: logging.Logger) -> Decorator:
        """4 attempts, logging each retry to ``log`` if it has to be told so."""
        return self.plain()


class Stormproof(Retrier):
    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        import stormproof as sp

        return sp.retry(on=ConnectionError, attempts=attempts, backoff=sp.Constant(wait))

    def bounded(self, limit: float, wait: float) -> Decorator:
        import stormproof as sp

        return sp.Policy(
            sp.Deadline(limit), sp.Retry(on=ConnectionError, attempts=None, backoff=sp.Constant(wait))
        )

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        import stormproof as sp

        return sp.retry(
            on=ConnectionError, attempts=attempts, backoff=sp.Exponential(base=base, cap=cap), budget=None
        )

    def but_value_error(self) -> Decorator:
        import stormproof as sp

        return sp.retry(on=_but_value_error, attempts=4, backoff=sp.Constant(0))

    def default(self) -> Decorator:
        import stormproof as sp

        return sp.retry(on=ConnectionError, attempts=4)

    @contextmanager
    def recorded(self) -> Iterator[list[float]]:
        import stormproof as sp

        with sp.testing.instant() as clock:
            yield clock.sleeps


class Tenacity(Retrier):
    def _retry(self, stop: Any, wait: Any, **more: Any) -> Decorator:
        import tenacity as t

        more.setdefault("retry", t.retry_if_exception_type(ConnectionError))
        return t.retry(stop=stop, wait=wait, reraise=True, **more)

    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        import tenacity as t

        return self._retry(t.stop_after_attempt(attempts), t.wait_fixed(wait))

    def bounded(self, limit: float, wait: float) -> Decorator:
        import tenacity as t

        return self._retry(t.stop_before_delay(limit), t.wait_fixed(wait))

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        import tenacity as t

        return self._retry(
            t.stop_after_attempt(attempts), t.wait_random_exponential(multiplier=base, max=cap)
        )

    def but_value_error(self) -> Decorator:
        import tenacity as t

        return self._retry(
            t.stop_after_attempt(4), t.wait_none(), retry=t.retry_if_exception(_but_value_error)
        )

    def default(self) -> Decorator:
        import tenacity as t

        return t.retry(stop=t.stop_after_attempt(4), retry=t.retry_if_exception_type(ConnectionError))

    def jittered(self) -> Decorator:
        return self.growing(4, 1.0, 60.0)

    def told(self, log: logging.Logger) -> Decorator:
        import tenacity as t

        return self._retry(
            t.stop_after_attempt(4), t.wait_none(), before_sleep=t.before_sleep_log(log, logging.WARNING)
        )


class Stamina(Retrier):
    def _retry(self, on: Any = ConnectionError, **more: Any) -> Decorator:
        import stamina

        return stamina.retry(on=on, **more)

    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        return self._retry(
            attempts=attempts, wait_initial=wait, wait_max=wait, wait_jitter=0, wait_exp_base=1
        )

    def bounded(self, limit: float, wait: float) -> Decorator:
        return self._retry(
            attempts=None, timeout=limit, wait_initial=wait, wait_max=wait, wait_jitter=0, wait_exp_base=1
        )

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        return self._retry(attempts=attempts, wait_initial=base, wait_max=cap, wait_jitter=cap)

    def but_value_error(self) -> Decorator:
        return self._retry(on=_but_value_error, attempts=4, wait_max=0, wait_jitter=0)

    def default(self) -> Decorator:
        return self._retry(attempts=4)

    def told(self, log: logging.Logger) -> Decorator:
        from stamina.instrumentation import LoggingOnRetryHook, set_on_retry_hooks

        set_on_retry_hooks([LoggingOnRetryHook])
        return self.plain()


class Backoff(Retrier):
    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        import backoff

        return backoff.on_exception(
            backoff.constant, ConnectionError, max_tries=attempts, jitter=None, interval=wait
        )

    def bounded(self, limit: float, wait: float) -> Decorator:
        import backoff

        return backoff.on_exception(
            backoff.constant, ConnectionError, max_time=limit, jitter=None, interval=wait
        )

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        import backoff

        return backoff.on_exception(
            backoff.expo, ConnectionError, max_tries=attempts, factor=base, max_value=cap
        )

    def default(self) -> Decorator:
        import backoff

        return backoff.on_exception(backoff.expo, ConnectionError, max_tries=4)


class Opnieuw(Retrier):
    """Has no wait of one's own: it spreads the calls over a window."""

    def _retry(self, attempts: int, window: float) -> Decorator:
        import opnieuw

        return opnieuw.retry(
            retry_on_exceptions=ConnectionError,
            max_calls_total=attempts,
            retry_window_after_first_call_in_seconds=window,  # type: ignore[arg-type]
        )

    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        return self._retry(attempts, max(1, wait * (attempts - 1)))

    def bounded(self, limit: float, wait: float) -> Decorator:
        return self._retry(4, limit)

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        return self._retry(attempts, 1)

    def default(self) -> Decorator:
        return self._retry(4, 60)


class Nopanic(Retrier):
    def plain(self, attempts: int = 4, wait: float = 0.0) -> Decorator:
        import nopanic

        return nopanic.retry(attempts=attempts, on=ConnectionError, backoff=nopanic.backoff.fixed(wait))

    def bounded(self, limit: float, wait: float) -> Decorator:
        import nopanic

        return nopanic.compose(nopanic.deadline(limit), self.plain(1_000, wait), nopanic.timeout(60))

    def growing(self, attempts: int, base: float, cap: float) -> Decorator:
        import nopanic

        return nopanic.retry(
            attempts=attempts, on=ConnectionError, backoff=nopanic.backoff.full_jitter(base=base, cap=cap)
        )

    def but_value_error(self) -> Decorator:
        import nopanic

        return nopanic.retry(attempts=4, on=_but_value_error, backoff=nopanic.backoff.fixed(0))

    def default(self) -> Decorator:
        import nopanic

        return nopanic.retry(attempts=4, on=ConnectionError)

    def budgeted(self) -> Decorator:
        import nopanic

        return nopanic.retry(attempts=4, on=ConnectionError, budget=nopanic.RetryBudget(ratio=0.1))

    @contextmanager
    def recorded(self) -> Iterator[list[float]]:
        from nopanic import testing

        with testing.instant() as sleeps:
            yield sleeps

    def told(self, log: logging.Logger) -> Decorator:
        from nopanic import events

        events.log_to(log)
        return self.plain()


RETRIERS: dict[str, Retrier] = {
    "stormproof": Stormproof(),
    "tenacity": Tenacity(),
    "stamina": Stamina(),
    "backoff": Backoff(),
    "opnieuw": Opnieuw(),
    "nopanic": Nopanic(),
}
