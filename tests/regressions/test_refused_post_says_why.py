"""A POST that is not sent again says so in a note and in the log; in decorator form it was silent."""

import logging

import httpx
import pytest

import stormproof as sp


def test_post_without_a_key_is_noted_and_logged(caplog):
    response = httpx.Response(503, request=httpx.Request("POST", "http://x/"))
    with (
        caplog.at_level(logging.WARNING, logger="stormproof"),
        pytest.raises(httpx.HTTPStatusError) as caught,
    ):
        sp.retry(on=sp.transient, name="order").call(response.raise_for_status)
    reason = "not retried: HTTP 503; POST without an idempotency key may have been processed"
    assert caught.value.__notes__ == [f"stormproof: 1 attempt; stopped: {reason}"]
    assert sp.stopped(caught.value) is None
    assert [record.stormproof["reason"] for record in caplog.records] == ["unrepeatable"]
