"""Every client that the docs describe, against every server stack that they describe."""

from __future__ import annotations

import pytest
from tests.support.http.both_halves import CHECKS, STACKS, has, holds
from tests.support.http.clients import CLIENTS

_PROMISES = [
    pytest.param(stack, check, marks=[pytest.mark.redis] if "Redis" in stack else [])
    for stack in STACKS
    for check in CHECKS
    if has(stack, check)
]


@pytest.mark.parametrize(("stack", "check"), _PROMISES)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_and_server_stack_behave_as_documented(client: str, stack: str, check: str) -> None:
    assert holds(client, stack, check)
