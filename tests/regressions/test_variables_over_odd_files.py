"""Environment variables over a file that is not what they expect: an error that names the variable."""

from __future__ import annotations

from typing import Any

import pytest

from stormproof._config.registry import ConfigError, Registry

PLAIN = {"policies": {"p": {"retry": {"backoff": {"kind": "schedule", "waits": [1, 2]}}}}}


@pytest.mark.parametrize(
    ("data", "variable", "rule"),
    [
        (PLAIN, "STORMPROOF_P__RETRY__BACKOFF__WAITS__0", "is a list: set all of it"),
        (PLAIN, "STORMPROOF_P__RETRY__BACKOFF__WAITS__A__B", "is a list: set all of it"),
        ({**PLAIN, "budgets": 5}, "STORMPROOF_BUDGETS__A__RATIO", "unknown name in budgets 'A'"),
        ({**PLAIN, "budgets": {1: {}}}, "STORMPROOF_BUDGETS__A__RATIO", "unknown name in budgets 'A'"),
        ({"policies": 7}, "STORMPROOF_A__TIMEOUT", "unknown policy 'A'"),
        ({"policies": {1: {}}}, "STORMPROOF_A__TIMEOUT", "unknown policy 'A'"),
        ({**PLAIN, "store": 3}, "STORMPROOF_STORE__URL", "store is 3, which has no options"),
    ],
)
def test_error_names_the_variable(data: dict[str, Any], variable: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule) as caught:
        Registry.from_data(data, environ={variable: "1"})
    assert variable in str(caught.value)


@pytest.mark.parametrize("data", [[], None, 3, "text"])
@pytest.mark.parametrize("variable", ["STORMPROOF_STORE__URL", "STORMPROOF_A__TIMEOUT"])
def test_data_that_is_not_a_table_is_refused(data: Any, variable: str) -> None:
    from stormproof._config.errors import Document

    with pytest.raises(ConfigError, match="must be a table"):
        Registry(lambda: Document(data), environ={variable: "1"})
