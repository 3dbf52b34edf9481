"""boto3 with its own retries off, its calls under a policy that behaves as the AWS SDKs do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import pytest
from tests.support.http.server import Server, answer, reset

import stormproof as sp

JSON = [("Content-Type", "application/x-amz-json-1.0")]
THROTTLED = answer(
    400,
    b'{"__type": "com.amazonaws.dynamodb#ProvisionedThroughputExceededException", "message": "slow"}',
    JSON,
)
MISSING = answer(
    400, b'{"__type": "com.amazonaws.dynamodb#ResourceNotFoundException", "message": "no"}', JSON
)
FOUND = answer(200, b'{"Item": {"id": {"S": "7"}}}', JSON)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def table(server: Server) -> Iterator[Any]:
    client = boto3.client(
        "dynamodb",
        region_name="eu-west-1",
        endpoint_url=server.url(),
        aws_access_key_id="k",
        aws_secret_access_key="s",
        # total_max_attempts=1: the SDK makes one attempt, the policy decides about more.
        config=botocore.config.Config(retries={"total_max_attempts": 1, "mode": "standard"}),
    )
    yield client
    client.close()


def get(table: Any, policy: sp.Policy) -> Any:
    return policy.call(table.get_item, TableName="t", Key={"id": {"S": "7"}})["Item"]


@pytest.fixture
def policy() -> sp.Policy:
    return sp.Policy(sp.Retry(on=sp.transient, attempts=3, backoff=sp.Exponential(0.001, cap=0.002)))


def test_throttling_and_a_reset_are_retried(server: Server, table: Any, policy: sp.Policy) -> None:
    server.on("/", THROTTLED, reset(), FOUND)
    assert get(table, policy) == {"id": {"S": "7"}}
    assert len(server.seen) == 3


def test_missing_table_is_not_retried(server: Server, table: Any, policy: sp.Policy) -> None:
    server.on("/", MISSING)
    with pytest.raises(botocore.exceptions.ClientError):
        get(table, policy)
    assert len(server.seen) == 1


def test_preset_pays_as_the_sdk_does(server: Server, table: Any, stormproof_instant: object) -> None:
    policy = sp.presets.aws_standard()
    server.on("/", THROTTLED)
    with pytest.raises(botocore.exceptions.ClientError):
        get(table, policy)
    assert len(server.seen) == 3
    (retry,) = [strategy for strategy in policy.strategies if isinstance(strategy, sp.Retry)]
    # Two retries, five tokens each, of a quota of 500.
    assert retry.budget.balance == 490
