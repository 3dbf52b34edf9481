"""The machinery of `make bench` on made-up cases: no real time is measured, and none is asserted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import pytest
from verification.benchmarks import contenders, render
from verification.benchmarks.__main__ import main
from verification.benchmarks.call_timing import ARGUMENT, UNROLLED, Calls, Steps
from verification.benchmarks.memory import Growth, Held
from verification.benchmarks.model import QUICK, Bar, Case, Effort, Figures, Group, Outcome, Ready
from verification.benchmarks.run import run
from verification.benchmarks.suites import SUITES, load

ABSENT = "a_module_that_is_not_installed"
TINY = Effort(rounds=1, batch_s=0.0, spawns=1, calls=50)


class Scripted:
    """A meter that answers with prepared figures: the n-th measurement gets the n-th script."""

    def __init__(self, *scripts: Mapping[str, float | Figures], units: tuple[str, ...] = ("ns",)) -> None:
        self.units = units
        self.scripts = list(scripts)
        self.measured: list[list[str]] = []

    def check(self, ready: Ready) -> None:
        if isinstance(ready.made, Exception):
            raise ready.made

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        script = self.scripts[min(len(self.measured), len(self.scripts) - 1)]
        names = [ready.case.name for ready in cases]
        self.measured.append(names)
        return {name: self._figures(script[name]) for name in names}

    def _figures(self, given: float | Figures) -> Figures:
        return {self.units[0]: given} if isinstance(given, (int, float)) else given


def nothing() -> object:
    """set up as nothing"""
    return object()


def a_group(meter: Any, *bars: Bar, cases: tuple[Case, ...] = (), **changes: Any) -> Group:
    cases = cases or (Case("loop", nothing), Case("ours", nothing), Case("theirs", nothing))
    return Group("g", "A group", "loop", meter, cases, bars, **changes)


def compared(outcome: Outcome) -> dict[str, float | None]:
    return {row.name: row.compared for row in outcome.rows}


# Comparing and judging.


def test_ratios_are_to_the_baseline() -> None:
    outcome = run(a_group(Scripted({"loop": 100.0, "ours": 110.0, "theirs": 1000.0})), QUICK)
    assert compared(outcome) == {"loop": 1.0, "ours": pytest.approx(1.1), "theirs": 10.0}


def test_excess_is_the_difference_from_the_baseline() -> None:
    group = a_group(Scripted({"loop": 12.0, "ours": 15.0, "theirs": 60.0}), compare="excess")
    assert compared(run(group, QUICK)) == {"loop": 0.0, "ours": 3.0, "theirs": 48.0}


def test_without_a_baseline_nothing_is_compared() -> None:
    cases = (Case("loop", nothing, needs=ABSENT), Case("ours", nothing))
    outcome = run(a_group(Scripted({"ours": 110.0}), cases=cases), QUICK)
    assert compared(outcome) == {"loop": None, "ours": None}


@pytest.mark.parametrize(
    ("bar", "state", "measured"),
    [
        (Bar("b", "ours", 1.5), "met", 1.5),
        (Bar("b", "ours", 1.49), "missed", 1.5),
        (Bar("b", "ours", 0.3, against="theirs"), "met", 0.3),
        (Bar("b", "ours", 0.2, against="theirs"), "missed", 0.3),
        (Bar("b", "ours", 50, of="excess"), "met", 50),
        (Bar("b", "ours", 49, of="excess"), "missed", 50),
        (Bar("b", "ours", 149, of="value"), "missed", 150),
        (Bar("b", "ours", 4, of="value", unit="B"), "met", 4),
        (Bar("b", "ours", 1, of="excess", unit="B"), "missed", 3),
    ],
)
def test_bar_is_met_up_to_its_limit(bar: Bar, state: str, measured: float) -> None:
    figures: dict[str, float | Figures] = {
        "loop": {"ns": 100, "B": 1},
        "ours": {"ns": 150, "B": 4},
        "theirs": {"ns": 500, "B": 9},
    }
    (verdict,) = run(a_group(Scripted(figures, units=("ns", "B")), bar), QUICK).verdicts
    assert verdict.state == state and verdict.measured == pytest.approx(measured)


def test_missed_bar_is_measured_once_more_and_the_second_time_counts() -> None:
    noisy = Scripted({"loop": 100, "ours": 200, "theirs": 1}, {"loop": 100, "ours": 105, "theirs": 1})
    outcome = run(a_group(noisy, Bar("b", "ours", 1.5)), QUICK)
    assert (outcome.verdicts[0].state, outcome.repeated, len(noisy.measured)) == ("met", True, 2)

    slow = Scripted(*[{"loop": 100, "ours": 200, "theirs": 1}] * 2, {"loop": 1, "ours": 1, "theirs": 1})
    outcome = run(a_group(slow, Bar("b", "ours", 1.5)), QUICK)
    assert (outcome.verdicts[0].state, outcome.repeated, len(slow.measured)) == ("missed", True, 2)


def test_bar_that_is_met_is_measured_once() -> None:
    meter = Scripted({"loop": 100, "ours": 120, "theirs": 1}, {"loop": 100, "ours": 500, "theirs": 1})
    outcome = run(a_group(meter, Bar("b", "ours", 1.5)), QUICK)
    assert (outcome.repeated, len(meter.measured)) == (False, 1)


def test_bar_against_a_missing_package_is_not_judged() -> None:
    cases = (Case("loop", nothing), Case("ours", nothing), Case("theirs", nothing, needs=ABSENT))
    group = a_group(Scripted({"loop": 1, "ours": 9}), Bar("b", "ours", 0.3, against="theirs"), cases=cases)
    (verdict,) = run(group, QUICK).verdicts
    assert (verdict.state, verdict.why) == ("not judged", "theirs is not installed")


def broken() -> object:
    raise TypeError("no such option")


@pytest.mark.parametrize("make", [broken, lambda: ValueError("wrong result")])
def test_case_that_fails_misses_its_bar_and_spares_the_others(make: Callable[[], object]) -> None:
    cases = (Case("loop", nothing), Case("ours", make), Case("theirs", nothing))
    outcome = run(a_group(Scripted({"loop": 1, "theirs": 2}), Bar("b", "ours", 1.5), cases=cases), QUICK)
    assert [row.state for row in outcome.rows] == ["measured", "failed", "measured"]
    assert outcome.verdicts[0].state == "missed" and [row.name for row in outcome.broken] == ["ours"]


def test_measurement_that_breaks_misses_the_bars_of_its_group_and_spares_the_next() -> None:
    # The figures of "ours" are not there.
    outcome = run(a_group(Scripted({"loop": 1, "theirs": 2}), Bar("b", "ours", 1.5)), QUICK)
    assert [(row.state, row.error) for row in outcome.rows] == [("failed", "KeyError: 'ours'")] * 3
    assert outcome.verdicts[0].state == "missed"


def test_failing_case_of_another_library_does_not_fail_the_run() -> None:
    cases = (Case("loop", nothing), Case("theirs", broken, needs="json"))
    outcome = run(a_group(Scripted({"loop": 1}), cases=cases), QUICK)
    assert outcome.rows[1].error == "TypeError: no such option" and outcome.broken == []


@pytest.mark.parametrize(
    "parts",
    [
        {"cases": (Case("a", nothing), Case("b", nothing))},
        {"cases": (Case("loop", nothing), Case("loop", nothing))},
        {"bars": (Bar("b", "unknown", 1),)},
        {"bars": (Bar("b", "loop", 1, against="unknown"),)},
    ],
)
def test_group_names_only_cases_it_has(parts: dict[str, Any]) -> None:
    given: dict[str, Any] = {"cases": (Case("loop", nothing),), "bars": (), **parts}
    with pytest.raises(ValueError, match="group 'g'"):
        Group("g", "A group", "loop", Scripted({}), **given)


# Statements, and memory over a long time.


def counted(text: str) -> tuple[Steps, list[int]]:
    """A statement that counts how often it ran, and says so when asked whether it worked."""
    ran: list[int] = []

    async def step_async() -> None:
        ran.append(1)

    names = {"step": lambda: ran.append(1), "step_async": step_async, "whole": contextlib.nullcontext}
    return Steps(text, names, lambda times: len(ran) == times), ran


@pytest.mark.parametrize(
    ("text", "is_async"),
    [
        ("step()", False),
        ("step()", True),
        ("await step_async()", True),
        ("with whole(): step()", False),
    ],
)
def test_statement_runs_as_written(text: str, is_async: bool) -> None:
    steps, ran = counted(text)
    ready = Ready(Case("statement", nothing), steps)
    meter = Calls(is_async)
    meter.check(ready)
    assert len(ran) == UNROLLED
    figures = meter.measure([ready], TINY)
    assert list(figures) == ["statement"] and len(ran) > UNROLLED


def test_statement_that_does_nothing_is_refused() -> None:
    steps, ran = counted("pass")
    with pytest.raises(AssertionError, match="'pass' did not do its work"):
        Calls().check(Ready(Case("statement", nothing), steps))
    assert ran == []


LINE = b"x" * 100


def keeps_everything() -> Held:
    kept: list[bytes] = []
    return Held(lambda number: kept.append(LINE + b"%d" % number), lambda: len(kept))


def keeps_the_last() -> Held:
    kept: dict[str, bytes] = {}
    return Held(lambda number: kept.update(last=LINE + b"%d" % (number + 10**6)), lambda: len(kept))


def test_growth_is_the_memory_of_the_later_uses() -> None:
    cases = [Ready(Case(make.__name__, make), None) for make in (keeps_everything, keeps_the_last)]
    figures = Growth().measure(cases, TINY)
    uses = TINY.calls * Growth.TIMES
    everything, last = figures["keeps_everything"], figures["keeps_the_last"]
    assert everything["entries"] == uses and last["entries"] == 1
    # All but a hundredth of the lines came later.
    assert everything["B held"] > everything["B more"] > 0.99 * uses * len(LINE)
    assert last["B more"] < 10 * len(LINE)


def test_growth_counts_every_use_once() -> None:
    seen: list[int] = []
    Growth().measure([Ready(Case("seen", lambda: Held(seen.append)), None)], TINY)
    assert seen == list(range(TINY.calls * Growth.TIMES))


def test_growth_refuses_a_case_that_holds_nothing() -> None:
    outcome = run(a_group(Growth(), cases=(Case("loop", nothing),)), TINY)
    assert outcome.rows[0].error.startswith("TypeError: a Held was expected")


# The command.


def with_a_missing_rival(ours: float, *bars: Bar) -> Group:
    cases = (Case("loop", nothing), Case("ours", nothing), Case("theirs", nothing, needs=ABSENT))
    return a_group(Scripted({"loop": 100.0, "ours": ours}), *bars, cases=cases)


@pytest.mark.parametrize(
    ("ours", "options", "code"),
    [(150.0, [], 0), (151.0, [], 1), (151.0, ["--quick"], 0)],
    ids=["met", "missed", "quick"],
)
def test_exit_code_reports_a_missed_bar(
    ours: float, options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    group = with_a_missing_rival(ours, Bar("our bar", "ours", 1.5, goal=1.1))
    assert main(options, [group]) == code
    said = capsys.readouterr()
    assert ("our bar missed" in said.err) == (code == 1)
    assert ("missed      our bar: 1.51" in said.out) == (ours > 150)


@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_case_of_our_own_that_fails_fails_the_run(options: list[str]) -> None:
    cases = (Case("loop", nothing), Case("ours", broken))
    assert main(options, [a_group(Scripted({"loop": 1}), cases=cases)]) == 1


def test_table_is_aligned_and_lists_missing_packages(capsys: pytest.CaptureFixture[str]) -> None:
    main([], [with_a_missing_rival(1234.5678)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == [
        "A group               ns  ratio",
        "  loop (baseline)  100.0   1.00",
        "  ours             1,235  12.35",
        "  theirs           not installed",
    ]
    assert "Python" in lines[0] and "CPUs" in lines[0]
    assert all(rival in lines[1] for rival in ["stormproof", *contenders.RIVALS, *contenders.OTHERS])


def test_markdown_has_the_same_rows(tmp_path: Path) -> None:
    target = tmp_path / "bench.md"
    main(["--markdown", str(target)], [with_a_missing_rival(110.0, Bar("our bar", "ours", 1.5))])
    text = target.read_text()
    assert "| A group | ns | ratio |\n|---|---:|---:|\n| loop (baseline) | 100.0 | 1.00 |\n" in text
    assert "| theirs | not installed |  |\n" in text
    assert "- met our bar: 1.10 (asked: <= 1.50)\n" in text


def test_json_has_every_number_and_the_setup_of_each_case(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    group = with_a_missing_rival(160.0, Bar("our bar", "ours", 1.5, goal=1.1))
    assert main(["--json", str(target)], [group]) == 1
    data = json.loads(target.read_text())
    (written,) = data["groups"]
    cases = {case["name"]: case for case in written["cases"]}
    assert cases["ours"]["figures"] == {"ns": 160.0} and cases["ours"]["compared"] == pytest.approx(1.6)
    assert cases["ours"]["setup"] == "set up as nothing"
    assert cases["theirs"]["state"] == "not installed" and cases["theirs"]["figures"] == {}
    assert written["measured_twice"] is True and written["baseline"] == "loop"
    (bar,) = written["bars"]
    assert (bar["limit"], bar["goal"], bar["state"]) == (1.5, 1.1, "missed")
    assert data["missed"] == ["our bar"] and data["cpus"] >= 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (3, "3"),
        (12345, "12,345"),
        (12345.6, "12,346"),
        (110.04, "110.0"),
        (1.5, "1.50"),
    ],
)
def test_numbers_are_rounded_to_few_digits(value: float, text: str) -> None:
    assert render.number(value) == text


def test_missed_goal_is_mentioned_and_meets_the_bar() -> None:
    bar = Bar("our bar", "ours", 1.5, goal=1.1)
    for ours, words in ((140, "goal not reached"), (105, "goal reached")):
        figures: dict[str, float | Figures] = {"loop": 100, "ours": ours, "theirs": 1}
        (verdict,) = run(a_group(Scripted(figures), bar), QUICK).verdicts
        assert verdict.state == "met" and words in render.verdict_line(verdict)


# The real suites.


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_describes_the_setup_of_its_cases(name: str) -> None:
    groups = load(name)
    assert groups
    for group in groups:
        assert [case.name for case in group.cases if not case.setup] == []


def test_bars_of_the_suites_have_the_promised_limits() -> None:
    bars = {bar.what: bar for name in SUITES for group in load(name) for bar in group.bars}
    limits = {what: bar.limit for what, bar in bars.items() if "held" not in what}
    assert limits == {
        "sync call, default budget": 1.5,
        "async call, default budget": 1.4,
        "drop-in, sync, against tenacity": 0.05,
        "drop-in, async, against tenacity": 0.05,
        "retried call": pytest.approx(1 / 3),
        "retried async call": pytest.approx(1 / 3),
        "retried, own exception, of nopanic's": 1.0,
        "retried, exception with attributes, of nopanic's": 1.0,
        "retried, ConnectionError, of nopanic's": 1.0,
        "retried, transient, of nopanic's": 1.0,
        "retried, own exception": 7,
        "limiter refuses, of nopanic's": 1.1,
        "retried, awaited": 2.3,
        "attempts used up": 3.5,
        "budget exhausted": 3.5,
        "not retryable": 1.2,
        "breaker open, of nopanic's": 0.75,
        "retry + breaker open, of nopanic's": 1.6,
        "five, breaker open, of nopanic's": 2.0,
        "deadline + retry": 5,
        "five strategies": 10,
        "policy.call": 2.5,
        "five strategies, awaited": 1.0,
        "import, ms over a bare interpreter": 15,
        "third-party modules loaded": 0,
        "sync breaker": 3.5,
        "sync retry + budget + breaker + bulkhead": 5,
        "async retry + budget + breaker + bulkhead": 4,
        "Limiter.allow(), of nopanic": pytest.approx(1 / 3),
        "Limiter.allow(), of aiolimiter": pytest.approx(1 / 3),
        "breaker: bytes more after a million": 512,
        "limiter: bytes more after a million": 512,
        "keyed budget: bytes more after a million": 512,
        "keyed budget: entries": 1000,
        "a call that Prometheus counts": 2,
        "httpx-five: us added to a GET": 19.5,
        "httpx-five-async: us added to a GET": 33.5,
        "httpx: a GET, of bare httpx": 1.03,
        "httpx: a GET, of httpx-retries": 1.01,
        "httpx-async: a GET, of bare httpx-async": 1.03,
        "httpx-async: a GET, of httpx-retries": 1.01,
        "aiohttp: a GET, of bare aiohttp": 1.03,
        "aiohttp: a GET, of aiohttp-retry": 1.01,
        "requests: a GET, of bare requests": 1.03,
        "requests: a GET, of urllib3 Retry": 1.01,
        "urllib3: a GET, of bare urllib3": 1.03,
        "urllib3: a GET, of urllib3 Retry": 1.01,
        "fleet limiter, of one EVALSHA": pytest.approx(1 / 20),
        "fleet limiter that refuses, of one EVALSHA": pytest.approx(1 / 20),
        "fleet budget, of one EVALSHA": pytest.approx(1 / 20),
        "fleet limiter: ns a decision, 100,000 a second": 10_000,
        "fleet budget: ns a decision, 100,000 a second": 10_000,
        "250,000 attempts a second, us": 4,
        "450,000 attempts a second, us": pytest.approx(20 / 9),
        "10 million attempts a second compiled, us": 0.1,
        "100,000 clients cost as 100 do": 1.5,
        "an eighth of SimPy's time": 1 / 8,
        "1/200 of SimPy's time, compiled": 1 / 200,
        "5 million simulated attempts a second": 0.2,
        "1 million clients within 4 GB, MB": 4000,
        "25 million video players, s": 60,
    }
    assert bars["sync retry + budget + breaker + bulkhead"].goal == 2
    assert bars["sync call, default budget"].goal == 1.1
    # Less than a pointer per call.
    held = [bar.limit for what, bar in bars.items() if "held" in what]
    assert held and max(held) < 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["success", "retried", "retention", "strategies"])
def test_our_own_cases_run(name: str) -> None:
    for group in load(name):
        outcome = run(group, TINY, enforce=False)
        assert [(row.name, row.error) for row in outcome.broken] == []


@pytest.mark.parametrize("is_async", [False, True])
def test_retried_case_makes_four_attempts(is_async: bool) -> None:
    made = 0
    flaky = contenders.flaky()

    def counting(key: int) -> Any:
        nonlocal made
        made += 1
        return flaky(key)

    async def counting_async(key: int) -> Any:
        return counting(key)

    with contenders.sleepless():
        if is_async:
            by_hand = contenders.hand_written_async(counting_async, pause=False)
            for call in (by_hand, contenders.stormproof_now(counting_async)):
                assert asyncio.run(call(ARGUMENT)) == ARGUMENT  # type: ignore[arg-type]
        else:
            for call in (contenders.hand_written(counting, pause=False), contenders.stormproof_now(counting)):
                assert call(ARGUMENT) == ARGUMENT
    assert made == 2 * 4


def test_sleepless_refuses_a_real_wait_and_puts_sleep_back() -> None:
    with contenders.sleepless():
        time.sleep(0)
        with pytest.raises(AssertionError, match=r"a wait of 0\.5 s"):
            time.sleep(0.5)
    # Not compared with what it was before this test: an earlier one may have left it replaced.
    assert isinstance(time.sleep, BuiltinFunctionType)
