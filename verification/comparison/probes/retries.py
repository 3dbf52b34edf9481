"""What a retry loop does with attempts, errors and cancellation."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ..model import Probe, counted, exactly, yes_no
from ..setups.retriers import RETRIERS, Decorator, Retrier


class Failing:
    """A function that always fails, and counts."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.calls = 0
        self.error = error or ConnectionError("down")

    def wrapped(self, decorate: Any) -> Any:
        @decorate
        def call(*args: Any) -> None:
            self.calls += 1
            raise self.error

        return call

    def spent(self, decorate: Any, *args: Any) -> BaseException | None:
        """Call it once; what came out."""
        try:
            self.wrapped(decorate)(*args)
        except BaseException as error:
            return error
        return None


def _attempts(library: Retrier) -> int:
    failing = Failing()
    with library.recorded():
        failing.spent(library.plain(4))
    return failing.calls


attempts_counted = Probe(
    "attempts-counted",
    "retry",
    "With 4 attempts, a function that always fails: how often is it called?",
    "4 calls, the first one counted.",
    exactly(4, "call"),
)
attempts_counted.on(RETRIERS, _attempts)


def _zero(library: Retrier) -> str:
    """Each library's own word for the number of attempts, set to 0; at 20 calls the probe stops it."""
    seen = 0

    class Enough(Exception):
        pass

    def call() -> None:
        nonlocal seen
        seen += 1
        if seen == 20:
            raise Enough
        raise ConnectionError

    try:
        decorated = library.plain(0)(call)
    except (ValueError, TypeError):
        return "refused"
    with library.recorded():
        try:
            decorated()
        except Enough:
            return "20 calls, then stopped by the probe"
        except Exception:
            pass
    return counted(seen, "call")


zero_attempts = Probe(
    "zero-attempts",
    "retry",
    "Set to 0 attempts.",
    "refused when it is set up.",
    lambda seen: (seen, seen == "refused"),
)
zero_attempts.on(RETRIERS, _zero)


def _original(library: Retrier) -> tuple[str, str]:
    """What comes out by default, and with every setting the probes use elsewhere."""
    error = ConnectionError("down")
    with library.recorded():
        raised = [Failing(error).spent(library.default()), Failing(error).spent(library.plain())]
    first, second = ("the original" if one is error else type(one).__name__ for one in raised)
    return first, second


def _judge_original(seen: tuple[str, str]) -> tuple[str, bool]:
    by_default, when_told = seen
    more = "" if by_default == when_told else f" ({when_told} with `reraise=True`)"
    return by_default + more, by_default == "the original"


original_error = Probe(
    "original-error",
    "retry",
    "Attempts used up: what is raised, by default?",
    "the function's own last exception, the same object.",
    _judge_original,
)
original_error.on(RETRIERS, _original)


def _cause(library: Retrier) -> bool:
    causes: list[KeyError] = []

    @library.plain(3)
    def call() -> None:
        causes.append(KeyError(len(causes)))
        raise ConnectionError("down") from causes[-1]

    with library.recorded():
        try:
            call()
        except ConnectionError as error:
            return error.__cause__ is causes[-1]
    return False


cause_kept = Probe(
    "cause-kept",
    "retry",
    "The function raises `ConnectionError ... from` another error, on every attempt.",
    "the last exception's `__cause__` is the one its author gave it.",
    yes_no("kept", "replaced"),
)
cause_kept.on(RETRIERS, _cause)


def _judge_cancelled(seen: tuple[int, bool]) -> tuple[str, bool]:
    calls, cancelled = seen
    if cancelled and calls == 1:
        return "ends at once", True
    return f"ran it again: {counted(calls, 'call')}", False


def _cancelled(decorate: Decorator) -> tuple[int, bool]:
    calls = 0

    @decorate
    async def call() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(30)
        return "answer"

    async def scenario() -> bool:
        task = asyncio.create_task(call())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task], timeout=2)
        return task.cancelled()

    cancelled = asyncio.run(scenario())
    return calls, cancelled


cancelled_task = Probe(
    "cancelled-task",
    "retry",
    "Set to retry `ConnectionError`; the asyncio task is cancelled during the first attempt.",
    "the task ends cancelled, with no further call.",
    _judge_cancelled,
)
cancelled_task.on(RETRIERS, lambda library: _cancelled(library.plain()))

#: Their callers say a type, and with it how far it may go: `Exception` or `BaseException`.
BY_TYPE_ONLY = {
    "backoff": "by type, a predicate can only stop it",
    "opnieuw": "by type only",
}

cancelled_task_except = Probe(
    "cancelled-task-except",
    "retry",
    "The same, with a predicate alone as the rule of what to retry: everything that is not a `ValueError`.",
    "the task ends cancelled, with no further call.",
    _judge_cancelled,
)
cancelled_task_except.on(
    RETRIERS, lambda library: _cancelled(library.but_value_error()), without=BY_TYPE_ONLY
)


def _interrupt(library: Retrier) -> int:
    failing = Failing(KeyboardInterrupt())
    failing.spent(library.but_value_error())
    return failing.calls


keyboard_interrupt = Probe(
    "keyboard-interrupt",
    "retry",
    "With the same predicate; the function raises `KeyboardInterrupt`.",
    "1 call.",
    exactly(1, "call"),
)
keyboard_interrupt.on(RETRIERS, _interrupt, without=BY_TYPE_ONLY)


def _shared(block: Any) -> int:
    """Four tasks share one object, each fails all the time: how many get their own error?"""
    errors = [ConnectionError(str(n)) for n in range(4)]

    async def task(error: ConnectionError) -> bool:
        try:
            async for attempt in block:
                with attempt:
                    await asyncio.sleep(0.01)
                    raise error
        except ConnectionError as seen:
            return seen is error
        return False

    async def scenario() -> int:
        return sum(await asyncio.gather(*map(task, errors)))

    return asyncio.run(scenario())


shared_block = Probe(
    "shared-block",
    "retry",
    "Four asyncio tasks retry a block by one shared object (`async for attempt in ...`), all fail.",
    "each task gets its own last error.",
    lambda seen: ("each got its own" if seen == 4 else "errors lost", seen == 4),
)
shared_block.lacks("backoff", "opnieuw", "nopanic")


@shared_block.by("stormproof")
def _shared_stormproof() -> int:
    import stormproof as sp

    return _shared(sp.retrying(on=ConnectionError, attempts=3, backoff=sp.Constant(0)))


@shared_block.by("tenacity")
def _shared_tenacity() -> int:
    import tenacity as t

    on = t.retry_if_exception_type(ConnectionError)
    return _shared(t.AsyncRetrying(retry=on, stop=t.stop_after_attempt(3), reraise=True))


@shared_block.by("stamina")
def _shared_stamina() -> int:
    import stamina

    return _shared(stamina.retry_context(on=ConnectionError, attempts=3, wait_max=0, wait_jitter=0))


SECRET = "hunter2"


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.getMessage()} {record.__dict__}\n"


def _logged(library: Retrier) -> tuple[bool, bool]:
    """Whether anything was logged, and whether an argument of the call was in it."""
    keeper = _Keeper()
    root = logging.getLogger()
    root.addHandler(keeper)
    decorate = library.told(logging.getLogger("app"))
    for name in ("", "stamina", "backoff", "opnieuw", "stormproof", "nopanic"):
        logging.getLogger(name or None).setLevel(logging.DEBUG)
    with library.recorded():
        Failing().spent(decorate, SECRET)
    return bool(keeper.text), SECRET in keeper.text


def _judge_logged(seen: tuple[bool, bool]) -> tuple[str, bool]:
    logged, leaked = seen
    if leaked:
        return "arguments in the log record", False
    return ("logged without arguments", True) if logged else ("nothing logged", True)


arguments_logged = Probe(
    "arguments-logged",
    "retry",
    "A call with a password as argument is retried, with the library's logging on, at DEBUG.",
    "the argument is in no log record, its message or its attributes.",
    _judge_logged,
)
arguments_logged.on(RETRIERS, _logged)

PROBES = [
    attempts_counted,
    zero_attempts,
    original_error,
    cause_kept,
    cancelled_task,
    cancelled_task_except,
    keyboard_interrupt,
    shared_block,
    arguments_logged,
]
