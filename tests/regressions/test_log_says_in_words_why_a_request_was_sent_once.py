"""``orders gave up after 1 attempt: unrepeatable``: the one reason that the log gave by its code.

Stormproof: every reason that `GaveUp` can have is logged in words.
"""

from __future__ import annotations

import logging
import re

import pytest

import stormproof as sp
import stormproof.logging

REASONS = re.findall(r'"([a-z]+)"', sp.events.GaveUp.__doc__ or "")


def test_reasons_of_gave_up_are_known() -> None:
    assert {"fatal", "budget", "unrepeatable"} <= set(REASONS)


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_logged_in_words(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stormproof")
    sp.logging.log(sp.events.GaveUp("orders", 2, 0.5, "builtins.OSError", reason))
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("orders gave up after 2 attempts in 0.500 s since the first failure: ")
    # A code has one word, and so has "cancelled", which needs no more.
    assert reason == "cancelled" or f": {reason} (" not in said
