"""The order of tests: shuffled anew in every run, by a seed that is printed and can be given.

Files come in a random order, but for those that take longest, which come first so that no process is left
alone with one of them at the end; the tests of a file are shuffled among themselves.
``STORMPROOF_TEST_SEED=1234`` repeats an order, ``STORMPROOF_TEST_SEED=0`` keeps the order of the source.

Tests marked ``long`` run with ``--long`` (``make test-long``) and no others do then, but for those marked
``sized``, which run in both: ``full_size()`` says which of their two sizes to take.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

SEED = "STORMPROOF_TEST_SEED"
LONG = "STORMPROOF_TEST_LONG"

#: The files that take longest, as build/test/times.txt lists them after a run.
LONGEST = frozenset(
    {
        "tests/faults/test_http_hangs.py",
        "tests/faults/test_one_shot_bodies.py",
        "tests/integration/browser/test_lab_page.py",
        "tests/integration/browser/test_lab_page_story.py",
        "tests/integration/fleet/test_fleet_breaker.py",
        "tests/integration/http/test_http_both_halves.py",
        "tests/integration/http/test_http_deadlines.py",
        "tests/integration/http/test_http_transparency.py",
        "tests/integration/idempotency/test_idempotency_sqlite.py",
        "tests/integration/idempotency/test_idempotency_stores.py",
        "tests/integration/libraries/test_classify_real_libraries.py",
        "tests/integration/queues/test_celery.py",
        "tests/integration/queues/test_dramatiq.py",
        "tests/lab/test_fast.py",
        "tests/lab/test_fast_rules.py",
        "tests/lint/test_lint_fixes.py",
        "tests/properties/test_budget_invariants.py",
        "tests/properties/test_fleet_invariants.py",
        "tests/regressions/test_http_pool_survives_an_overload.py",
        "tests/simulation/test_seeds.py",
        "tests/tools/test_benchmarks.py",
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the tests that take longer than a suite should")


def pytest_configure(config: pytest.Config) -> None:
    # Workers of xdist inherit both, so that all of them collect the same tests in the same order.
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(1, 10**6)))
    if config.getoption("long"):
        os.environ[LONG] = "1"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file that is long as a whole without importing it: what it needs may not be installed."""
    if os.environ.get(LONG) or collection_path.suffix != ".py" or is_named(config):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return True if "\npytestmark = pytest.mark.long\n" in text else None


def is_named(config: pytest.Config) -> bool:
    """Return True if the command line names nothing but files or tests: those run, long or not."""
    return all("::" in argument or argument.endswith(".py") for argument in config.args)


def pytest_report_header() -> str:
    return f"order of tests: {SEED}={os.environ[SEED]}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not is_named(config):
        select(config, items)
    seed = int(os.environ[SEED])
    if seed:
        shuffle(items, random.Random(seed))


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the long tests, or the others."""
    long = bool(os.environ.get(LONG))

    def belongs(item: pytest.Item) -> bool:
        if item.get_closest_marker("sized"):
            return True
        return (item.get_closest_marker("long") is not None) == long

    config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
    items[:] = [item for item in items if belongs(item)]


def shuffle(items: list[pytest.Item], rng: random.Random) -> None:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    names = list(files)
    rng.shuffle(names)
    names.sort(key=lambda name: name not in LONGEST)
    for tests in files.values():
        rng.shuffle(tests)
    items[:] = [item for name in names for item in files[name]]
