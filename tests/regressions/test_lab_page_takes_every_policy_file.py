"""The page's editor shows and writes everything that a policy file may hold."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("numpy")

from stormproof.lab.page import policy


@pytest.mark.parametrize(
    "text",
    [
        "[limiters]\npartner = '100/s burst 5'\n[policies.p]\nrate_limit = 'partner'\n",
        "x-day = 1979-05-27\nx-at = 07:32:00\n[policies.p]\nretry = {}\n",
        "[policies.p]\nfallback = { value = [1979-05-27T07:32:00Z, 1] }\n",
        "[budgets]\n[policies.p]\nretry = {}\n",
    ],
)
def test_policy_file_is_shown_and_reads_back(text: str) -> None:
    sheet = policy.read(text)
    shown = sheet.describe()["toml"]
    again = policy.read(shown)
    assert repr(again.policy) == repr(sheet.policy)
    assert again.data == sheet.data
