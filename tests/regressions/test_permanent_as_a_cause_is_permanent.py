"""`raise ... from Permanent(...)` is final, as `Permanent` itself is; it was retried."""

import pytest

import stormproof as sp


def test_error_raised_from_a_permanent_one_is_not_retried():
    calls = []

    def fetch():
        calls.append(1)
        try:
            raise sp.Permanent(ConnectionError("gone"))
        except sp.Permanent as permanent:
            raise ConnectionError("wrapped") from permanent

    with pytest.raises(ConnectionError, match="wrapped"):
        sp.retry(on=ConnectionError, backoff=sp.Constant(0)).call(fetch)
    assert len(calls) == 1


def test_error_raised_while_a_permanent_one_was_handled_is_retried():
    calls = []

    def fetch():
        calls.append(1)
        try:
            raise sp.Permanent(KeyError("cache"))
        except sp.Permanent:
            raise ConnectionError("refused") from None

    with pytest.raises(ConnectionError):
        sp.retry(on=ConnectionError, backoff=sp.Constant(0), attempts=2).call(fetch)
    assert len(calls) == 2


def test_group_with_a_leaf_raised_from_a_permanent_error_is_not_retried():
    calls = []

    def fetch():
        calls.append(1)
        leaf = ConnectionError("wrapped")
        leaf.__cause__ = sp.Permanent(ConnectionError("gone"))
        raise ExceptionGroup("both", [TimeoutError(), leaf])

    for on in (sp.transient, (ConnectionError, TimeoutError), lambda error: True):
        calls.clear()
        with pytest.raises(ExceptionGroup):
            sp.retry(on=on, backoff=sp.Constant(0)).call(fetch)
        assert len(calls) == 1


def test_hedge_launches_no_more_after_an_error_raised_from_a_permanent_one():
    calls = []

    async def fetch():
        calls.append(1)
        raise ConnectionError("wrapped") from sp.Permanent(ConnectionError("gone"))

    async def main(clock):
        await sp.Policy(sp.Hedge(after=1, max=3, idempotent=True)).acall(fetch)

    with pytest.raises(ConnectionError):
        sp.testing.run(main)
    assert len(calls) == 1
