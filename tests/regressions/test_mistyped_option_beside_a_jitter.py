"""``jitter = { symmetric = 0.5, max = 3 }`` loaded without a word, and did not do what it says.

Stormproof: an option that does not exist is an error at its place, whatever stands before it.
"""

from __future__ import annotations

import pytest

from stormproof._config.registry import ConfigError, Registry
from stormproof._config.sources import parse


@pytest.mark.parametrize("table", ["{ symmetric = 0.5, max = 3 }", "{ max = 3, symmetric = 0.5 }"])
def test_unknown_key_beside_a_jitter_is_refused_in_any_position(table: str) -> None:
    text = f"[policies.p.retry.backoff]\nbase = 1\njitter = {table}\n"
    with pytest.raises(ConfigError, match="unknown jitter 'max'") as caught:
        Registry(lambda: parse(text, ".toml"), environ={})
    assert (caught.value.line, caught.value.key) == (3, "policies.p.retry.backoff.jitter.max")
