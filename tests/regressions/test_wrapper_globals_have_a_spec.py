"""Python 3.15 warns when a traceback is formatted through a frame whose globals have a loader and no spec.

With ``-W error`` the warning replaced the user's traceback.
"""

from __future__ import annotations

import linecache
import traceback

import stormproof as sp


@sp.retry(on=OSError, attempts=1)
def fails() -> None:
    raise OSError("no")


def test_wrapper_globals_name_one_loader() -> None:
    names = fails.__globals__
    assert names["__spec__"].loader is names["__loader__"]
    assert names["__spec__"].name == names["__name__"] == "stormproof"


def test_traceback_shows_the_lines_of_the_wrapper() -> None:
    linecache.clearcache()
    try:
        fails()
    except OSError as error:
        text = "".join(traceback.format_exception(error))
    assert "return _sp_failed(" in text or "_sp_call(" in text
