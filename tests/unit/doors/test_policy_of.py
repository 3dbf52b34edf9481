"""``policy_of``: from a decorated function, a strategy or tenacity's settings to the policy."""

from __future__ import annotations

import pytest
import tenacity as real

import stormproof as sp
from stormproof import lab
from stormproof.cli import main
from stormproof.compat import backoff, stamina
from stormproof.compat import tenacity as ours

STORM = lab.Scenario(
    clients=20, arrival_rps=80, capacity_rps=100, outage=lab.Outage(at=2, lasts=1, mode="fail"), duration=6
)


def test_decorated_function_and_method_give_the_policy_itself() -> None:
    policy = sp.Policy(sp.Retry(on=OSError))

    class Client:
        @policy
        def fetch(self) -> None: ...

    assert sp.policy_of(policy(lambda: None)) is policy
    assert sp.policy_of(Client().fetch) is policy
    assert sp.policy_of(policy) is policy


def test_retry_decorator_gives_its_policy() -> None:
    @sp.retry(on=OSError, attempts=7)
    def fetch() -> None: ...

    assert sp.policy_of(fetch).worst_case().attempts == 7


def test_policy_of_a_strategy_holds_that_strategy_alone() -> None:
    strategy = sp.Timeout(1)
    assert sp.policy_of(strategy).strategies == (strategy,)


@pytest.mark.parametrize("tenacity", [real, ours], ids=["tenacity", "drop-in"])
def test_tenacity_settings_and_decorated_functions_are_read(tenacity) -> None:
    @tenacity.retry(stop=tenacity.stop_after_attempt(3))
    def fetch() -> None: ...

    settings = tenacity.Retrying(stop=tenacity.stop_after_attempt(3))
    assert sp.policy_of(fetch).worst_case().attempts == 3
    assert sp.policy_of(settings).worst_case().attempts == 3


@pytest.mark.parametrize("target", [len, 3, None, sp.Timeout], ids=repr)
def test_anything_else_is_refused_by_name(target: object) -> None:
    with pytest.raises(TypeError, match="policy_of: target must be a decorated function, a Policy"):
        sp.policy_of(target)


@pytest.mark.parametrize("tenacity", [real, ours], ids=["tenacity", "drop-in"])
def test_lab_compares_tenacity_settings_with_policies(tenacity) -> None:
    settings = tenacity.Retrying(stop=tenacity.stop_after_attempt(4), wait=tenacity.wait_fixed(0.2))
    naive = sp.policy_from_tenacity(settings)
    compared = lab.compare({"theirs": settings, "same": naive, "none": None}, STORM, seeds=[1])
    peaks = {name: compared.summary[name]["calls_per_success"] for name in ("theirs", "same", "none")}
    assert peaks["theirs"] == peaks["same"] > peaks["none"]


MODULE = """
from {home} import {name}

@{name}.retry(stop={name}.stop_after_attempt(4), wait={name}.wait_fixed(0.2))
def fetch(): ...

@{name}.retry
def forever(): ...
"""


@pytest.mark.parametrize("home", ["", "stormproof.compat"], ids=["tenacity", "drop-in"])
def test_commands_take_a_function_that_tenacity_decorates(home: str, tmp_path, monkeypatch, capsys) -> None:
    text = MODULE.format(home=home, name="tenacity").replace("from  import", "import")
    name = f"mine_{home.replace('.', '_')}"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["explain", "--python", f"{name}:fetch"]) == 0
    assert "4 attempts" in capsys.readouterr().out
    assert main(["simulate", "--python", f"{name}:fetch", "--scenario", "herd", "--scale", "0.1"]) in (0, 1)
    assert "fetch" in capsys.readouterr().out
    assert main(["explain", "--python", f"{name}:forever"]) == 2
    assert "stop must end the retrying" in capsys.readouterr().err


@pytest.mark.parametrize("limit", [{"attempts": 3}, {"attempts": 3, "timeout": None}], ids=repr)
def test_function_of_the_stamina_drop_in_gives_its_waits_and_attempts(limit: dict[str, object]) -> None:
    @stamina.retry(on=OSError, wait_initial=0.5, wait_jitter=0, wait_max=4, **limit)  # type: ignore[arg-type]
    def fetch() -> None: ...

    policy = sp.policy_of(fetch)
    assert policy.worst_case().attempts == 3
    (retry,) = policy.strategies
    assert isinstance(retry, sp.Retry)
    assert [retry.backoff.delay(n, 0.0, 0.0) for n in range(5)] == [0.5, 1.0, 2.0, 4.0, 4.0]


def test_stamina_hook_that_gives_seconds_is_a_hint() -> None:
    @stamina.retry(on=lambda error: 7.0 if isinstance(error, OSError) else False, attempts=2)
    def fetch() -> None:
        raise OSError

    with sp.testing.instant() as clock, pytest.raises(OSError):
        start = clock.now()
        sp.policy_of(fetch).call(fetch.__wrapped__)  # type: ignore[attr-defined]
    assert clock.now() - start >= 7.0


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        ({"wait_gen": backoff.expo, "max_tries": 5, "max_value": 6}, [1, 2, 4, 6]),
        ({"wait_gen": backoff.fibo, "max_tries": 6}, [1, 1, 2, 3, 5]),
        ({"wait_gen": backoff.constant, "interval": 3, "max_tries": lambda: 3}, [3, 3]),
        ({"wait_gen": backoff.constant, "interval": (1, 9)}, [1, 9]),
    ],
    ids=["expo", "fibo", "limit from a function", "a list that ends"],
)
def test_function_of_the_backoff_drop_in_gives_its_waits_and_attempts(
    settings: dict[str, object], waits: list[float]
) -> None:
    @backoff.on_exception(exception=OSError, jitter=None, **settings)  # type: ignore[arg-type]
    def fetch() -> None: ...

    policy = sp.policy_of(fetch)
    assert policy.worst_case().attempts == len(waits) + 1
    (retry,) = policy.strategies
    assert isinstance(retry, sp.Retry)
    assert [retry.backoff.delay(n, 0.0, 0.0) for n in range(len(waits))] == waits


def test_giveup_and_predicate_of_the_backoff_drop_in_decide() -> None:
    calls: list[int] = []

    @backoff.on_predicate(backoff.constant, lambda value: value < 3, interval=0, max_tries=9)
    def count() -> int:
        calls.append(1)
        return len(calls)

    assert sp.policy_of(count).call(count.__wrapped__) == 3

    @backoff.on_exception(backoff.expo, OSError, max_tries=4, giveup=lambda error: error.errno == 5)
    def fetch(errno: int) -> None:
        calls.append(errno)
        raise OSError(errno, "x")

    for errno, attempts in ((5, 1), (6, 4)):
        calls.clear()
        with sp.testing.instant(), pytest.raises(OSError):
            sp.policy_of(fetch).call(fetch.__wrapped__, errno)  # type: ignore[attr-defined]
        assert len(calls) == attempts


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        (backoff.on_exception(backoff.expo, OSError), "max_tries or max_time must end the retrying"),
        (
            backoff.on_exception(backoff.runtime, OSError, value=lambda e: e.after, max_tries=3),
            "wait_gen must not depend on the outcome",
        ),
        (
            backoff.on_exception(backoff.expo, OSError, max_tries=3, jitter=lambda w: w + 1),
            "jitter must be one of backoff's own",
        ),
        (stamina.retry(on=OSError, attempts=None, timeout=None), "attempts or timeout must end the retrying"),
    ],
    ids=["no limit", "waits by outcome", "own jitter", "stamina without limit"],
)
def test_settings_that_a_policy_cannot_have_are_refused(decorator, message: str) -> None:
    with pytest.raises(ValueError, match=f"policy_of: {message}"):
        sp.policy_of(decorator(lambda: None))


def test_lab_takes_functions_of_the_drop_ins() -> None:
    @stamina.retry(on=Exception, attempts=4)
    def first() -> None: ...

    @backoff.on_exception(backoff.expo, Exception, max_tries=4)
    def second() -> None: ...

    results = [lab.simulate(fn, STORM, seed=1).amplification for fn in (first, second, None)]
    assert min(results[:2]) > results[2] == 1.0
