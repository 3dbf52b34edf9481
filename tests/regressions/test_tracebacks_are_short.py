"""tenacity#525: a failure's traceback was mostly the library's own frames.

Stormproof: at most four lines of its own stand between the caller and the function (three in async code),
once,
however many attempts there were; an error not retried looks the same.
"""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path

import pytest
from tests.support.scripted import Boom, retry

import stormproof as sp

PACKAGE = str(Path(sp.__file__).parent)


def own(error):
    """The functions of Stormproof's own frames in the traceback, and of all frames."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f.name for f in frames if f.filename.startswith((PACKAGE, "stormproof ", "<stormproof"))]
    return ours, [f.name for f in frames]


def fails():
    raise Boom


async def fails_async():
    raise Boom


@pytest.fixture(autouse=True)
def instant():
    with sp.testing.instant():
        yield


@pytest.mark.parametrize("attempts", [1, 2, 50])
@pytest.mark.parametrize("on", [Boom, KeyError], ids=["retried", "fatal"])
def test_traceback_of_a_sync_call_is_short(attempts, on):
    with pytest.raises(Boom) as caught:
        retry(on=on, attempts=attempts)(fails)()
    ours, all_ = own(caught.value)
    assert len(ours) <= 4
    assert all_[-1] == "fails" and all_.count("fails") == 1


@pytest.mark.parametrize("attempts", [1, 2, 50])
def test_traceback_of_an_async_call_is_short(attempts):
    with pytest.raises(Boom) as caught:
        asyncio.run(retry(attempts=attempts)(fails_async)())
    ours, all_ = own(caught.value)
    assert len(ours) <= 3
    assert all_[-1] == "fails_async" and all_.count("fails_async") == 1


@pytest.mark.parametrize("attempts", [1, 2, 50])
def test_traceback_of_a_block_has_no_frames_of_ours(attempts):
    with pytest.raises(Boom) as caught:
        for attempt in retry(attempts=attempts).retrying():
            with attempt:
                fails()
    ours, all_ = own(caught.value)
    assert ours == []
    assert all_[-1] == "fails"


def test_line_of_a_wrapper_shows_its_text():
    with pytest.raises(Boom) as caught:
        retry()(fails)()
    text = "".join(traceback.format_exception(caught.value))
    for frame in traceback.extract_tb(caught.value.__traceback__):
        assert frame.line, f"no source for {frame.filename}:{frame.lineno}"
    assert text.count("tests.support.scripted.Boom") == 1, "printed once: no chain of earlier attempts"


def test_our_own_refusals_print_the_last_failure_once():
    with pytest.raises(sp.DeadlineExceeded) as caught:
        retry(within=0.5, raises="refusal")(fails)()
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("scripted.Boom") == 1 and "During handling" not in text
