"""On trio an error in the user's own rule left the hedge wrapped in an ExceptionGroup.

Stormproof: what a rule raises inside a hedge surfaces as itself.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom

import stormproof as sp


class Bug(Exception):
    pass


def rule(_error):
    raise Bug


def vary(_number, _args, _kwargs):
    raise Bug


@each_loop
@pytest.mark.parametrize("options", [{"on": rule}, {"on": Boom, "vary": vary}], ids=["on", "vary"])
def test_rule_that_raises_in_an_async_hedge_is_raised_bare(loop, options):
    @sp.Policy(sp.Hedge(after=60, idempotent=True, **options))
    async def fetch():
        raise Boom

    with pytest.raises(Bug):
        loop.run(fetch)


@pytest.mark.parametrize("options", [{"on": rule}, {"on": Boom, "vary": vary}], ids=["on", "vary"])
def test_rule_that_raises_in_a_threaded_hedge_is_raised_bare(options):
    @sp.Policy(sp.Hedge(after=60, idempotent=True, **options))
    def fetch():
        raise Boom

    with pytest.raises(Bug):
        fetch()
