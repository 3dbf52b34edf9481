"""The public names: listed, sorted, resolvable, and at home in ``stormproof``."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import stormproof as sp

#: The contract so far. A name may be added here, never removed without STABILITY.md's steps.
CONTRACT = {
    "backoff": {
        "ByKind",
        "Constant",
        "Decorrelated",
        "Exponential",
        "Fibonacci",
        "Linear",
        "Schedule",
        "Symmetric",
    },
    "policy": {"Policy", "Retry", "Deadline", "retry", "retrying"},
    "classification": {"Verdict", "transient"},
    "budgets": {"Budget", "QuotaBudget", "RateBudget", "ThrottleBudget", "WindowBudget", "keyed"},
    "deadlines": {"attempt", "carry", "deadline", "disabled", "remaining"},
    "marks": {"Permanent", "RetryAfter"},
    "errors": {
        "AttemptTimeout",
        "BudgetExhausted",
        "BulkheadFull",
        "Cancelled",
        "CircuitOpen",
        "DeadlineExceeded",
        "StormproofError",
        "RateLimited",
        "Throttled",
    },
    "events": {"subscribe"},
}
#: Modules reached as attributes, with no import of their own: ``sp.testing.FakeClock``.
MODULES = ["testing"]


@pytest.mark.parametrize("topic", sorted(CONTRACT))
def test_every_name_of_the_contract_is_exported(topic: str) -> None:
    missing = sorted(CONTRACT[topic] - set(sp.__all__))
    assert not missing, f"stormproof.__all__ lacks {', '.join(missing)}"


def test_all_is_sorted_and_has_no_duplicates() -> None:
    assert list(sp.__all__) == sorted(set(sp.__all__))


@pytest.mark.parametrize("name", sp.__all__)
def test_every_name_resolves_and_lives_in_stormproof(name: str) -> None:
    value = getattr(sp, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        # Tracebacks, reprs and pickles name the public place, not the file behind it.
        assert value.__module__ == "stormproof"
        assert getattr(sp, value.__qualname__) is value


def test_dir_lists_the_lazy_names() -> None:
    assert set(sp.__all__) <= set(dir(sp))


def test_unknown_name_is_an_attribute_error() -> None:
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(sp, name)


def test_star_import_gives_exactly_all() -> None:
    names: dict[str, object] = {}
    exec("from stormproof import *", names)
    assert names.keys() - {"__builtins__"} == set(sp.__all__)


def test_modules_are_attributes_in_a_fresh_interpreter() -> None:
    source = str(Path(sp.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {source!r}); import stormproof as sp; " + "; ".join(
        f"sp.{name}.__name__" for name in MODULES
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
