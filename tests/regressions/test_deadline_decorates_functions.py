"""`@deadline(2)` bounds each call of a function; it was "'Scope' object is not callable"."""

import asyncio

import pytest

import stormproof as sp


def test_each_call_has_its_own_deadline():
    @sp.deadline(2)
    def left():
        return sp.remaining()

    with sp.testing.instant() as clock:
        assert left() == 2
        clock.advance(5)
        assert left() == 2
    assert sp.remaining() is None


def test_coroutine_function_is_cut_off():
    async def main(clock):
        @sp.deadline(2)
        async def hang():
            await asyncio.sleep(60)

        with pytest.raises(sp.DeadlineExceeded):
            await hang()
        return clock.now()

    assert sp.testing.run(main) == pytest.approx(2)


def test_generator_function_is_refused():
    with pytest.raises(TypeError, match="deadline: what is decorated must be a function"):

        @sp.deadline(2)
        def items():
            yield 1
