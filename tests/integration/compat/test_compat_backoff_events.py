"""``stormproof.compat.backoff``: handlers, their details, and the default log."""

# ruff: noqa: F401, F811 -- fixtures are imported by name and named again as arguments

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from unittest import mock

import pytest
from tests.integration.compat.backoff_harness import Script, fresh_python, run, slept

from stormproof.compat import backoff
from stormproof.compat.backoff import _log

# --- handlers


def test_details_of_on_exception_are_the_documented_ones(run, slept):
    events = []
    error = KeyError("x")
    names = ("on_success", "on_backoff", "on_giveup")
    handlers = {name: functools.partial(lambda name, d: events.append((name, d)), name) for name in names}
    decorator = backoff.on_exception(
        backoff.constant, KeyError, interval=6, max_tries=2, jitter=None, **handlers
    )
    run(decorator, Script(error, "done"), 1, 2, key=3)
    with pytest.raises(KeyError):
        run(decorator, Script(error, error), 1, 2, key=3)
    for _, details in events:
        assert isinstance(details.pop("elapsed"), float)
        assert details.pop("target").__name__ == "target"
    shared = {"args": (1, 2), "kwargs": {"key": 3}}
    assert events == [
        ("on_backoff", {**shared, "tries": 1, "wait": 6, "exception": error}),
        ("on_success", {**shared, "tries": 2}),
        ("on_backoff", {**shared, "tries": 1, "wait": 6, "exception": error}),
        ("on_giveup", {**shared, "tries": 2, "exception": error}),
    ]


def test_details_of_on_predicate_are_the_documented_ones(run, slept):
    events = []
    names = ("on_success", "on_backoff", "on_giveup")
    handlers = {name: functools.partial(lambda name, d: events.append((name, d)), name) for name in names}
    decorator = backoff.on_predicate(backoff.constant, interval=6, max_tries=2, jitter=None, **handlers)
    run(decorator, Script(0, "done"), 1, key=3)
    run(decorator, Script(0, ""), 1, key=3)
    for _, details in events:
        assert isinstance(details.pop("elapsed"), float)
        assert details.pop("target").__name__ == "target"
    shared = {"args": (1,), "kwargs": {"key": 3}}
    assert events == [
        ("on_backoff", {**shared, "tries": 1, "wait": 6, "value": 0}),
        ("on_success", {**shared, "tries": 2, "value": "done"}),
        ("on_backoff", {**shared, "tries": 1, "wait": 6, "value": 0}),
        ("on_giveup", {**shared, "tries": 2, "value": ""}),
    ]


def test_details_name_the_undecorated_function(run, slept):
    seen = []
    target = run.decorated(
        lambda f: (seen.append(f), backoff.on_predicate(backoff.expo, on_success=seen.append)(f))[1],
        Script(1),
    )
    target()
    assert seen[1]["target"] is seen[0]


@pytest.mark.parametrize("container", [list, tuple, iter, lambda handlers: (h for h in handlers)])
def test_several_handlers_run_in_order_on_every_call(run, slept, container):
    seen = []
    handlers = [lambda _, n=n: seen.append(n) for n in range(3)]
    target = run.decorated(
        backoff.on_predicate(backoff.expo, on_backoff=container(handlers)), Script(0, 1, 0, 1)
    )
    target()
    target()
    assert seen == [0, 1, 2, 0, 1, 2]


def test_handlers_run_while_the_error_is_being_handled(run, slept):
    seen = []
    error = KeyError()

    def handler(details):
        seen.append(sys.exc_info()[1])

    decorator = backoff.on_exception(
        backoff.expo, KeyError, max_tries=2, on_backoff=handler, on_giveup=handler
    )
    with pytest.raises(KeyError):
        run(decorator, Script(error, error))
    assert seen == [error, error]


def test_error_in_a_handler_ends_the_call(run, slept):
    def handler(details):
        raise LookupError("stop")

    script = Script(ValueError(), "never")
    with pytest.raises(LookupError, match="stop"):
        run(backoff.on_exception(backoff.expo, ValueError, on_backoff=handler), script)
    assert script.calls == 1


def test_mock_that_is_also_iterable_is_called(run, slept):
    handler = mock.MagicMock(return_value=None)
    run(backoff.on_predicate(backoff.expo, on_backoff=handler), Script(0, 1))
    assert handler.call_count == 1


@pytest.mark.parametrize("bad", [5, [print, 5]])
def test_handler_that_is_not_callable_is_refused(bad):
    with pytest.raises(TypeError, match="on_backoff must be a callable or an iterable of callables, got 5"):
        backoff.on_predicate(backoff.expo, on_backoff=bad)


class AsyncHandler:
    def __init__(self, seen):
        self.seen = seen

    async def __call__(self, details):
        self.seen.append(details["tries"])


@pytest.mark.parametrize("form", ["function", "lambda", "object", "partial", "AsyncMock", "list"])
def test_coroutine_handlers_are_awaited(slept, form):
    seen = []

    async def handler(details):
        seen.append(details["tries"])

    forms = {
        "function": handler,
        "lambda": lambda details: handler(details),  # noqa: PLW0108 -- not a coroutine function itself
        "object": AsyncHandler(seen),
        "partial": functools.partial(handler),
        "AsyncMock": mock.AsyncMock(side_effect=handler),
        "list": [handler],
    }
    kwargs = {"on_success": forms[form], "on_backoff": forms[form]}
    script = Script(KeyError(), "done")

    @backoff.on_exception(backoff.expo, KeyError, **kwargs)
    async def target():
        return script.play()

    assert asyncio.run(target()) == "done"
    assert seen == [1, 2]


def test_giveup_and_predicate_may_be_coroutine_functions(slept):
    async def is_fatal(value):
        return getattr(value, "args", value) in ((2,), "stop")

    script = Script(KeyError(1), KeyError(2), "never")

    @backoff.on_exception(backoff.expo, KeyError, giveup=is_fatal, raise_on_giveup=False)
    async def raising():
        return script.play()

    assert asyncio.run(raising()) is None
    assert script.calls == 2

    values = Script("stop", "stop", "go")

    @backoff.on_predicate(backoff.expo, is_fatal)
    async def returning():
        return values.play()

    assert asyncio.run(returning()) == "go"


def test_task_returned_by_a_handler_is_not_waited_for(slept):
    async def main():
        release = asyncio.Event()
        tasks = []

        def handler(details):
            tasks.append(asyncio.ensure_future(release.wait()))
            return tasks[-1]

        @backoff.on_predicate(backoff.expo, on_success=handler)
        async def target():
            return 1

        await target()
        release.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


# --- logging


@pytest.fixture(autouse=True)
def default_level():
    logger = logging.getLogger("backoff")
    before = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(before)


def test_default_logger_logs_each_wait_and_the_end(run, slept, caplog):
    decorator = backoff.on_exception(backoff.constant, KeyError, interval=1.26, jitter=None, max_tries=2)
    with pytest.raises(KeyError):
        run(decorator, Script(KeyError("k"), KeyError("k")))
    assert caplog.record_tuples == [
        ("backoff", logging.INFO, "Backing off target(...) for 1.3s (KeyError: 'k')"),
        ("backoff", logging.ERROR, "Giving up target(...) after 2 tries (KeyError: 'k')"),
    ]
    caplog.clear()
    run(backoff.on_predicate(backoff.constant, jitter=None, max_tries=2), Script(0, []))
    assert caplog.record_tuples == [
        ("backoff", logging.INFO, "Backing off target(...) for 1.0s (0)"),
        ("backoff", logging.ERROR, "Giving up target(...) after 2 tries ([])"),
    ]


def test_log_levels_can_be_chosen(run, slept, caplog):
    decorator = backoff.on_predicate(
        backoff.expo, max_tries=2, backoff_log_level=logging.WARNING, giveup_log_level=logging.CRITICAL
    )
    run(decorator, Script(0, 0))
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.CRITICAL]


def test_logger_none_logs_nothing_and_keeps_handlers(run, slept, caplog):
    seen = []
    run(backoff.on_predicate(backoff.expo, max_tries=2, logger=None, on_backoff=seen.append), Script(0, 0))
    assert caplog.records == []
    assert len(seen) == 1


class Prefixed(logging.LoggerAdapter):
    def process(self, msg, kwargs):
        return "app: " + msg, kwargs


@pytest.mark.parametrize("kind", ["name", "logger", "adapter"])
def test_logger_may_be_a_name_a_logger_or_an_adapter(run, slept, caplog, kind):
    mine = logging.getLogger("mine")
    given = {"name": "mine", "logger": mine, "adapter": Prefixed(mine, {})}[kind]
    with caplog.at_level(logging.INFO, logger="mine"):
        run(backoff.on_predicate(backoff.expo, logger=given, jitter=None), Script(0, 1))
    prefix = "app: " if kind == "adapter" else ""
    assert caplog.record_tuples == [("mine", logging.INFO, prefix + "Backing off target(...) for 1.0s (0)")]


def test_log_line_comes_before_the_users_handlers(run, slept, caplog):
    seen = []
    run(
        backoff.on_predicate(backoff.expo, on_backoff=lambda _: seen.append(len(caplog.records))),
        Script(0, 1),
    )
    assert seen == [1]


def test_one_decorator_on_two_functions_logs_once_per_event(run, slept, caplog):
    decorator = backoff.on_predicate(backoff.expo)
    run(decorator, Script(0, 1))
    run(decorator, Script(0, 1))
    assert len(caplog.records) == 2


def test_log_has_the_reason_when_waits_are_exhausted(run, slept, caplog):
    run(backoff.on_predicate(backoff.constant, interval=[1]), Script(0, 0))
    with pytest.raises(KeyError):
        run(backoff.on_exception(backoff.constant, KeyError, interval=[]), Script(KeyError("k")))
    assert [r.message for r in caplog.records if r.levelno == logging.ERROR] == [
        "Giving up target(...) after 2 tries (0)",
        "Giving up target(...) after 1 tries (KeyError: 'k')",
    ]


def test_log_shows_the_error_not_its_note(run, slept, caplog):
    error = ValueError("the error")
    error.add_note("a note")
    run(backoff.on_exception(backoff.expo, ValueError, jitter=None), Script(error, 1))
    assert caplog.messages == ["Backing off target(...) for 1.0s (ValueError: the error)"]


def test_log_shows_the_last_line_of_a_syntax_error(run, slept, caplog):
    error = SyntaxError("bad", ("file.py", 1, 1, "x ="))
    run(backoff.on_exception(backoff.expo, SyntaxError, jitter=None), Script(error, 1))
    assert caplog.messages == ["Backing off target(...) for 1.0s (SyntaxError: bad)"]


def test_log_shows_the_value_inside_an_unrelated_except(run, slept, caplog):
    try:
        raise LookupError("unrelated")
    except LookupError:
        run(backoff.on_predicate(backoff.expo, jitter=None), Script(0, 1))
    assert caplog.messages == ["Backing off target(...) for 1.0s (0)"]


def test_target_without_a_name_is_logged(slept, caplog):
    def poll(value):
        return value

    class Poll:
        def __call__(self):
            return 0

    decorator = backoff.on_predicate(backoff.constant, max_tries=2, jitter=None)
    decorator(functools.partial(functools.partial(poll), 0))()
    decorator(Poll())()
    assert [record.args[0] for record in caplog.records] == ["poll", "poll", "Poll", "Poll"]


@pytest.mark.parametrize(
    ("before", "level"),
    [("", "INFO"), ("setLevel(logging.ERROR)", "ERROR"), ("setLevel(logging.DEBUG)", "DEBUG")],
)
def test_importing_configures_the_logger_once(before, level):
    code = f"""
import logging
logger = logging.getLogger("backoff")
{before and "logger." + before}
from stormproof.compat import backoff
print(logging.getLevelName(logger.level), *[type(h).__name__ for h in logger.handlers])
"""
    assert fresh_python(code).split() == [level, "NullHandler"]


def test_configuring_the_logger_again_changes_nothing():
    logger = logging.getLogger("backoff")
    before, level = list(logger.handlers), logger.level
    try:
        logger.setLevel(logging.WARNING)
        _log.configure()
        assert logger.handlers == before
        # The library itself, where it is installed, has added its own.
        assert logging.NullHandler in [type(handler) for handler in before]
        assert logger.level == logging.WARNING
    finally:
        logger.setLevel(level)
