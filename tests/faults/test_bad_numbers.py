"""NaN, inf, negative, True, strings: in every numeric option of every public constructor and function.

The options are found by reading the signatures, so a new one is tested from the day it appears. Each bad
value must be refused at once, with an error that names the field and the value.
"""

from __future__ import annotations

import inspect
import math
import re
import tempfile
from datetime import timedelta

import pytest

import stormproof as sp

pytestmark = pytest.mark.proves("fault bad-numbers")

NAN, INF = math.nan, math.inf

#: What each callable needs besides the option under test, to be valid otherwise.
NEEDED = {
    "Constant": {"wait": 1},
    "Schedule": {"values": [1]},
    "Deadline": {"seconds": 1},
    "Timeout": {"seconds": 1},
    "Limiter": {"rate": 1},
    "Bulkhead": {"limit": 1, "queue": 1},
    "Hedge": {"after": 1, "idempotent": True},
    "RetryAfter": {"seconds": 1},
    "Verdict": {"retry": True},
    "retry": {"on": OSError},
    "retrying": {"on": OSError},
    "keyed": {"template": sp.Budget()},
    "deadline": {"limit": 1},
    "Pacer": {"rate": 1},
    "RateLimit": {"limiter": "1/s"},
    "Chaos": {"outcome": None, "fault": OSError},
    "chaos": {},
    "AdaptiveLimit": {"initial": 1},
    "Worker": {"handler": print},
    "reconnecting": {"connect": print},
    "idempotent": {"key": str, "store": sp.idempotency.MemoryStore()},
    "redis.RedisStore": {"url": "redis://127.0.0.1:1"},
    "idempotency.SqliteStore": {"path": f"{tempfile.gettempdir()}/stormproof-never-opened.db"},
    "asgi.DeadlineMiddleware": {"app": print},
    "asgi.SheddingMiddleware": {"app": print, "queue": 1},
    "asgi.IdempotencyMiddleware": {"app": print, "store": sp.idempotency.MemoryStore()},
    "celery.task_base": {"policy": sp.retry(on=OSError)},
    "grpc.interceptors": {"policy": sp.retry(on=OSError)},
    "grpc.aio_interceptors": {"policy": sp.retry(on=OSError)},
    "lab.Outage": {"at": 1, "lasts": 1},
    "lab.occ": {"backoff": sp.Constant(1)},
}

#: Beside the core: the callables of the modules that stand on other libraries.
FURTHER = (
    "redis.RedisStore",
    "idempotency.MemoryStore",
    "idempotency.SqliteStore",
    "asgi.DeadlineMiddleware",
    "asgi.SheddingMiddleware",
    "asgi.IdempotencyMiddleware",
    "asgi.StatusApp",
    "celery.task_base",
    "dramatiq.Policies",
    "grpc.interceptors",
    "grpc.aio_interceptors",
    "grpc.server_interceptors",
    "grpc.aio_server_interceptors",
    "httpx.ClientOptions",
    "lab.Scenario",
    "lab.Outage",
)
#: Options that belong to one of several kinds.
KINDS = {
    ("AdaptiveLimit", "probe"): {"kind": "vegas"},
    ("AdaptiveLimit", "timeout"): {"kind": "aimd"},
    ("AdaptiveLimit", "decrease"): {"kind": "aimd"},
}

#: (callable, option): the bad values that are good there, and why.
ALLOWED = {
    ("Limiter", "rate"): [INF],  # no limit at all
    ("Pacer", "rate"): [INF],
    ("reconnecting", "stable"): [INF],  # no connection ever counts as stable
    ("WorstCase", "attempts"): None,  # what a policy comes to, made by worst_case()
    ("WorstCase", "seconds"): None,
    ("WorstCase", "hinted_seconds"): None,
    ("Stopped", "attempts"): None,  # what `stopped` answers
    ("Stopped", "elapsed"): None,
    ("Stopped", "retry_after"): None,
    ("WorstCase", "amplification"): None,
    ("RateBudget", "rate"): [INF],
    ("Retry", "max_hint"): [INF],  # any hint is kept to
    ("retry", "max_hint"): [INF],
    ("Verdict", "after"): [INF],  # a hint beyond reading
    ("CircuitOpen", "retry_after"): None,  # errors report what another party measured
    ("RateLimited", "retry_after"): None,
    ("ConfigError", "line"): None,  # and where in a file it was
    ("Attempt", "number"): None,  # made by the loop, not by users
    ("sleep_async", "seconds"): None,  # checked when awaited, as `sleep` checks it
    ("Scope", "limit_s"): None,  # made by deadline(), which is tested
    ("httpx.ClientOptions", "statuses"): None,  # several of them
    ("httpx.ClientOptions", "reauth_on"): None,
}


def named(name):
    """``sp.<name>``, where the name may begin with a module's."""
    target = sp
    for part in name.split("."):
        target = getattr(target, part)
    return target


def numeric_options():
    """(name, callable, option) of every public callable whose signature says int, float or Seconds."""
    for name in (*sp.__all__, *FURTHER):
        target = named(name)
        if not callable(target) or inspect.ismodule(target):
            continue
        try:
            parameters = inspect.signature(target).parameters.values()
        except ValueError:
            continue
        for parameter in parameters:
            if re.search(r"\b(int|float|Seconds)\b", str(parameter.annotation)):
                if ALLOWED.get((name, parameter.name), ()) is not None:
                    yield name, parameter.name, str(parameter.annotation)


OPTIONS = [
    option for option in numeric_options() if "Callable" not in option[2] and "Sequence" not in option[2]
]

each_option = pytest.mark.parametrize(
    ("name", "option"), sorted({(name, option) for name, option, _ in OPTIONS})
)

#: A good value of each option, where 1 is none.
GOOD = {
    ("Hedge", "max"): 2,
    ("lab.Outage", "cost"): 0,
    ("AdaptiveLimit", "decrease"): 0.5,
    ("AdaptiveRate", "beta"): 0.5,
}

BAD = {
    "NaN": NAN,
    "inf": INF,
    "-inf": -INF,
    "negative": -1,
    "slightly negative": -1e-9,
    "True": True,
    "False": False,
    "string": "5",
    "bytes": b"5",
    "list": [5],
    "complex": 5j,
    "object": object(),
    "negative timedelta": timedelta(seconds=-1),
}


def build(name, **options):
    target = named(name)
    kind = {key: value for option in options for key, value in KINDS.get((name, option), {}).items()}
    made = target(**{**NEEDED.get(name, {}), **kind, **options})
    if isinstance(made, sp.asgi.StatusApp):
        made.close()  # else its subscription outlives the test
    return made


def test_search_for_numeric_options_finds_known_ones():
    """Compared with a few by name, so that a change of style cannot empty the search."""
    found = {(name, option) for name, option, _ in OPTIONS}
    known = {
        ("Exponential", "base"), ("Exponential", "factor"), ("Exponential", "cap"), ("Exponential", "min"),
        ("Retry", "attempts"), ("Retry", "within"), ("Retry", "max_hint"), ("retry", "attempts"),
        ("Budget", "ratio"), ("Budget", "burst"), ("Budget", "window"), ("QuotaBudget", "throttle_cost"),
        ("Limiter", "rate"), ("Limiter", "burst"), ("Deadline", "seconds"), ("deadline", "limit"),
        ("keyed", "limit"), ("Symmetric", "r"), ("Constant", "wait"), ("RetryAfter", "seconds"),
    }  # fmt: skip
    assert known <= found


@each_option
def test_valid_value_is_accepted(name, option):
    """Else the refusals below would prove nothing."""
    build(name, **{option: GOOD.get((name, option), 1)})


def complaint(name, option, bad):
    """Describe how ``option`` of ``name`` mistreats the bad value; ``None`` if it does not."""
    value = BAD[bad]
    allowed = any(value is good for good in ALLOWED.get((name, option), ()))
    try:
        build(name, **{option: value})
    except (TypeError, ValueError) as refused:
        text = str(refused)
        if allowed:
            return f"{bad} is refused: {text}"
        if not re.search(rf"\b{option}\b", text):
            return f"{bad}: the field is not named: {text}"
        if repr(value) not in text and not (isinstance(value, timedelta) and "-1" in text):
            return f"{bad}: the value is not named: {text}"
        return None
    return None if allowed else f"{bad} is taken"


@each_option
def test_bad_values_are_refused_by_name(name, option):
    assert [fault for fault in (complaint(name, option, bad) for bad in BAD) if fault is not None] == []


def riddles(value):
    """The options that take ``value``, or refuse it without saying which option it was."""
    taken, unnamed = [], []
    for name, option, _ in OPTIONS:
        try:
            build(name, **{option: value})
        except Exception as refused:
            if not re.search(rf"\b{option}\b", str(refused)):
                unnamed.append(f"{name}({option}=): {str(refused)[:80]}")
        else:
            taken.append(f"{name}({option}=)")
    return taken, unnamed


@pytest.mark.parametrize("sign", [1, -1])
def test_number_of_5000_digits_error_names_the_field(sign):
    """Python refuses to print such a number, which must not hide which field it was in."""
    taken, unnamed = riddles(sign * 10**5000)
    assert not unnamed
    assert sign > 0 or not taken


def test_numpy_bool_counts_as_a_bool():
    numpy = pytest.importorskip("numpy")
    assert riddles(numpy.True_) == ([], [])


# Pairs that contradict each other.


@pytest.mark.parametrize("make", [sp.Exponential, sp.Linear, sp.Fibonacci, sp.Decorrelated])
def test_base_and_min_above_cap_are_refused(make):
    with pytest.raises(ValueError, match=r"base must be <= cap \(2.0 seconds\), got 3"):
        make(3, cap=2)
    with pytest.raises(ValueError, match=r"min must be <= cap \(2.0 seconds\), got 3"):
        make(1, cap=2, min=3)
    make(2, cap=2, min=2)


@pytest.mark.parametrize("factor", [0, 0.999, -2])
def test_factor_below_one_is_refused(factor):
    with pytest.raises(ValueError, match=f"factor must be >= 1, got {factor}"):
        sp.Exponential(factor=factor)


@pytest.mark.parametrize("r", [-0.1, 1.1])
def test_symmetric_beyond_its_range_is_refused(r):
    with pytest.raises(ValueError, match=f"r must be .*, got {r}"):
        sp.Symmetric(r)


@pytest.mark.parametrize(
    "values", [[], [1, -1], [NAN], [1, INF], [True], ["1"], "12", 5, {1: 2}, {1, 2}], ids=repr
)
def test_schedule_with_a_bad_value_is_refused(values):
    with pytest.raises((TypeError, ValueError), match=r"Schedule: values"):
        sp.Schedule(values)


# Methods that take numbers.

METHODS = {
    "Limiter.allow": (lambda v: sp.Limiter(1, 1).allow(v), "n"),
    "Limiter.reserve": (lambda v: sp.Limiter(1, 1).reserve(v), "n"),
    "Limiter.reserve max_wait": (lambda v: sp.Limiter(1, 1).reserve(1, v), "max_wait"),
    "Limiter.wait": (lambda v: sp.Limiter(1, 1).wait(v), "n"),
    "Limiter.set_rate": (lambda v: sp.Limiter(1, 1).set_rate(v), "rate"),
    "Limiter.set_burst": (lambda v: sp.Limiter(1, 1).set_burst(v), "burst"),
    "with_": (lambda v: sp.retry(on=OSError).with_(attempts=v), "attempts"),
    "replace": (lambda v: sp.Budget().replace(ratio=v), "ratio"),
    "delay n": (lambda v: sp.Exponential().delay(v, None, 0.5), "n"),
    "delay u": (lambda v: sp.Exponential().delay(0, None, v), "u"),
    "delay prev": (lambda v: sp.Decorrelated().delay(0, v, 0.5), "prev"),
    "ceiling": (lambda v: sp.Exponential().ceiling(v), "n"),
    "preview": (lambda v: sp.Exponential().preview(v), "retries"),
    "worst_case": (lambda v: sp.Exponential().worst_case(v), "retries"),
}


@pytest.mark.parametrize("bad", ["NaN", "-inf", "negative", "True", "string", "complex"])
@pytest.mark.parametrize("method", METHODS)
def test_method_with_a_bad_number_is_refused(method, bad):
    call, field = METHODS[method]
    with pytest.raises((TypeError, ValueError)) as refused:
        call(BAD[bad])
    text = str(refused.value)
    assert re.search(rf"\b{field}\b", text) and repr(BAD[bad]) in text, text


@pytest.mark.parametrize("bad", ["NaN", "inf", "True", "string"])
def test_fake_clock_with_a_bad_number_is_refused(bad):
    with pytest.raises((TypeError, ValueError), match="start"):
        sp.testing.FakeClock(BAD[bad])
    with pytest.raises((TypeError, ValueError), match="seconds"):
        sp.testing.FakeClock().advance(BAD[bad])


# Numbers that come from users' code while a call runs.


class Mine(sp.Backoff):
    """A schedule of the user's own."""

    def __init__(self, wait):
        self.wait = wait

    def delay(self, n, prev, u):
        return self.wait

    def ceiling(self, n):
        return 1.0


def fails():
    fails.calls += 1
    raise ConnectionError


@pytest.fixture(autouse=True)
def _no_calls():
    fails.calls = 0


@pytest.mark.parametrize("kind", ["int", "numpy"])
def test_schedule_may_answer_with_any_kind_of_number(kind):
    wait = 2 if kind == "int" else pytest.importorskip("numpy").float64(2)
    clock = sp.testing.FakeClock()
    with pytest.raises(ConnectionError):
        sp.retry(on=ConnectionError, attempts=3, backoff=Mine(wait), budget=None, clock=clock).call(fails)
    assert fails.calls == 3, "attempts=3 is at most 3 calls"
    assert clock.sleeps == [2, 2]


@pytest.mark.parametrize("wait", [NAN, -1.0, "2", None], ids=repr)
@pytest.mark.parametrize("within", [None, 30])
def test_schedule_that_returns_an_invalid_wait_raises(wait, within):
    clock = sp.testing.FakeClock()
    policy = sp.retry(on=ConnectionError, backoff=Mine(wait), within=within, budget=None, clock=clock)
    with pytest.raises((TypeError, ValueError)) as refused:
        policy.call(fails)
    assert re.search(r"\bdelay\b|\bbackoff\b", str(refused.value)) and repr(wait) in str(refused.value)
    assert fails.calls == 1 and clock.sleeps == []


@pytest.mark.parametrize("u", [NAN, -0.1, 1.5, "0.5", None], ids=repr)
def test_rng_that_returns_an_invalid_draw_raises(u):
    clock = sp.testing.FakeClock()
    with pytest.raises((TypeError, ValueError), match=rf"\bu must be .*got {re.escape(repr(u))}"):
        sp.retry(on=ConnectionError, rng=lambda: u, budget=None, clock=clock).call(fails)
    assert fails.calls == 1 and clock.sleeps == []


@pytest.mark.parametrize("wait", [NAN, INF, -1.0, "2", None], ids=repr)
def test_jitter_that_returns_an_invalid_wait_raises(wait):
    clock = sp.testing.FakeClock()
    backoff = sp.Exponential(jitter=lambda u, ceiling: wait)
    with pytest.raises(ValueError, match=rf"jitter must return .*got {re.escape(repr(wait))}"):
        sp.retry(on=ConnectionError, backoff=backoff, budget=None, clock=clock).call(fails)
    assert fails.calls == 1 and clock.sleeps == []


# Objects of the wrong kind: a forgotten pair of brackets must not wait for the first failure.


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("backoff", lambda: sp.Retry(backoff=sp.Exponential)),
        ("budget", lambda: sp.Retry(budget=sp.Budget)),
        ("clock", lambda: sp.Policy(sp.Retry(), clock=sp.testing.FakeClock)),
        ("clock", lambda: sp.Policy(sp.Retry(), clock=5)),
        ("clock", lambda: sp.Budget(clock=5)),
        ("clock", lambda: sp.Limiter(1, 1, clock=5)),
        ("rng", lambda: sp.Policy(sp.Retry(), rng="x")),
        ("jitter", lambda: sp.Exponential(jitter=sp.Symmetric)),
        ("strategies", lambda: sp.Policy(sp.Retry)),
    ],
)
def test_class_or_number_in_place_of_an_object_is_refused(field, make):
    with pytest.raises(TypeError, match=rf"\b{field}\b"):
        make()


def test_keyed_takes_a_class_as_a_factory():
    """``keyed`` calls what is not a budget to make one; a class is such a callable."""
    assert isinstance(sp.keyed(sp.Budget)["key"], sp.Budget)
