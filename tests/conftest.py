"""Fixtures for every test; the rules for all of them are in tests/support/plugins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

# So that an assertion that fails in them shows its values.
pytest.register_assert_rewrite("tests.support")

from tests.support.services import require  # noqa: E402 - after the line above

pytest_plugins = (
    "tests.support.plugins.isolation",
    "tests.support.plugins.leftovers",
    "tests.support.plugins.order",
    "tests.support.plugins.skips",
    "tests.support.plugins.progress",
)

# A shared machine may stall any example, or the drawing of it; time is never what a property test asserts.
settings.register_profile(
    "stormproof", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("stormproof")


@pytest.fixture
def require_service() -> Callable[[str], str]:
    """``require_service("redis")`` returns the path of the service's command, or skips the test."""
    return require


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """``measured("1,000 tasks, at most 3 at once")`` keeps what this run saw for ``docs/proof.md``."""
    return lambda text: request.node.user_properties.append(("measured", text))
