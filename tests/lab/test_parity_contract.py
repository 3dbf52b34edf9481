"""The parity contract of the compiled engine, rule by rule: its table is complete, and each copy gives the
floats of its original. Waits, budgets and draws are in test_fast_rules.py, whole runs in random_runs.py.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from random import Random
from typing import Any

import pytest

pytest.importorskip("numba")

import numpy as np

from stormproof._strategies.budget.rules import Slices
from stormproof._strategies.limiter.rules.bucket import Bucket
from stormproof.lab import engines
from stormproof.lab.engines import numba as compiled
from stormproof.lab.engines.numba import backend, engine, layout, rules
from stormproof.lab.engines.policy_shape import Shape
from stormproof.lab.model.backend import Backend
from stormproof.lab.model.faults import Brownout, ColdCache, Outage
from stormproof.lab.model.scenario import Scenario
from stormproof.lab.model.timeline import Capacity, stretches

ROUNDS = 2000

#: Functions of the modules with copies that copy nothing: parts of a copy, or of the engine's own machinery.
OWN = {
    "rules._sum",
    "rules._whole",
    "rules._has_arrived",
    "rules._place",
    "rules.count_due",
    "rules.count_later",
    "rules.open_purse",
    "backend._lines_up",
    "randomness._mixed",
    "randomness._twist",
    "randomness._tempered",
}

_ROW = re.compile(r"^    (\w+\.\w+) +([\w.]+): ([\w.]+)$", re.MULTILINE)
CONTRACT = {copy: (module, name) for copy, module, name in _ROW.findall(compiled.__doc__ or "")}


def test_table_of_copies_names_every_compiled_rule() -> None:
    found = set()
    for module in ("rules", "backend", "randomness"):
        members = vars(importlib.import_module(f"{compiled.__name__}.{module}"))
        for name, member in members.items():
            function = getattr(member, "py_func", None)
            if function is not None and function.__module__ == f"{compiled.__name__}.{module}":
                found.add(f"{module}.{name}")
    assert found - OWN == {copy for copy in CONTRACT if not copy.startswith("kernel.")}
    assert found >= OWN


@pytest.mark.parametrize("copy", CONTRACT)
def test_copy_and_original_of_the_table_exist(copy: str) -> None:
    module, name = copy.split(".")
    assert hasattr(importlib.import_module(f"{engines.__name__}.numba.{module}"), name)
    home, path = CONTRACT[copy]
    room = {"random": "", "lab": "stormproof."}.get(home.partition(".")[0], "stormproof._strategies.")
    found: Any = importlib.import_module(room + home)
    for part in path.split("."):
        found = inspect.getattr_static(found, part)
    assert found is not None


@pytest.mark.parametrize("width", [1e-7, 0.1, 0.5, 1 / 3, 7.0])
def test_quick_floor_division_is_that_of_python(width: float) -> None:
    rng = Random(width)
    for _ in range(2_000):
        edge = rng.choice([rng.randrange(50), rng.randrange(10**6)]) * width
        for time in (
            edge,
            math.nextafter(edge, math.inf),
            max(0.0, math.nextafter(edge, 0)),
            edge * rng.random(),
        ):
            assert rules._whole(time, width) == time // width


@pytest.mark.parametrize("window", [0.004, 1.5, 100.0])
def test_window_rolls_and_adds_as_the_shipped_one(window: float) -> None:
    rng = Random(window)
    now = rng.random() * 10
    width = max(window / layout.SLICES, 1e-7)
    shipped, row, opened = Slices(window, now), np.zeros(layout.ROW), now
    for _ in range(ROUNDS):
        elapsed = rng.choice((0.0, rng.random() * width, rng.random() * window, 3 * window))
        now += elapsed
        shipped.roll(now)
        rules.roll(row, width, opened, now)
        if rng.random() < 0.5:
            amount = rng.random()
            shipped.add(amount, elapsed)
            rules.add(row, width, window, amount, elapsed)
        assert (row[2], rules.total(row)) == (shipped.end, shipped.total)


@pytest.mark.parametrize("rate", [0.3, 10.0, 1e6])
def test_token_is_taken_as_from_the_shipped_bucket(rate: float) -> None:
    rng, now = Random(rate), 0.0
    burst = 3
    shipped, level, last, refused = Bucket(rate, burst, now), float(burst), now, 0
    for index in range(ROUNDS):
        # At the exact pace, a rounding off it, and anywhere.
        pause = rng.choice((1 / rate, index / rate - (index - 1) / rate, rng.random() * 2 / rate, 0.0))
        now += pause
        left = rules.take_token(rate, float(burst), level, last, now)
        assert (left >= 0.0) == shipped.reserve(1, now, 0.0).ok
        if left >= 0.0:
            level, last = left, now
        refused += left < 0.0
        assert rules.tokens(rate, float(burst), level, last, now) == shipped.tokens(now)
    assert 0 < refused < ROUNDS


def world(scenario: Scenario) -> Any:
    return engine._world(Shape(), scenario, 0)


FAULTS = [Outage(2, 1), Brownout(4, 2, 0.5), Brownout(5, 2, 0.3)]
PLACE = Scenario(capacity_rps=50, outage=FAULTS[0], faults=FAULTS[1:], duration=10)


def test_compiled_backend_finishes_work_when_the_exact_one_does() -> None:
    shipped, row = Capacity(stretches(PLACE)), world(PLACE).row
    rng = Random(1)
    for start in sorted(rng.random() * 9 for _ in range(ROUNDS)):
        work = rng.choice((0.02, rng.random(), 4 * rng.random()))
        index = int(np.searchsorted(row["begins"], start, side="right")) - 1
        assert backend._finish(row, index, start, work) == shipped.finish(start, work)


# Compiling this one alone takes seconds.
@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workers": 4},
        {"queue": 5, "shed": True},
        {"service": "exponential", "workers": 2},
        {"faults": [ColdCache(3, 4.0, 30)], "service": "lognormal"},
        {"limit_rps": 40.0, "error_rate": 0.3, "cost": 0.5},
    ],
    ids=str,
)
def test_backend_answers_as_the_shipped_one(changes: dict[str, Any]) -> None:
    place = PLACE.replace(**changes)
    shipped, w, rng = Backend(place, 0, None), world(place), Random(2)  # type: ignore[arg-type]
    state = w.state[0]
    answers = set()
    for now in sorted(rng.random() * 9.5 for _ in range(ROUNDS // 4)):
        gone = now + rng.choice((0.3, 2.0, math.inf))
        wanted: Any = shipped.offer(now, 0.5, gone, None)
        state["now"] = now
        end = backend.offer(w, 0, 0, gone)
        if type(wanted) is tuple:
            assert (end, state["failing"] > 0) == (wanted[0], True)
        elif type(wanted) is float:
            assert (end, state["failing"]) == (wanted, 0)
        else:
            # Minus the answer: 1 "no room", 2 "over the limit", then those that faults give.
            assert end < 0 and (end == -2.0) == (wanted.status == 429)
        answers.add(type(wanted).__name__)
    assert "float" in answers
