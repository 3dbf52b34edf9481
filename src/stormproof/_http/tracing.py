"""The place where a telemetry library puts a span around every attempt of an HTTP client."""

from __future__ import annotations

from .exchange import Exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Ends the span of an attempt: its status, or the error that it ended in.
    End = Callable[[int | None, BaseException | None], None]
    #: Begins one: the method, the URL, and the number of the request from 1.
    Begin = Callable[[str, str, int], End]

#: ``None``: attempts are not traced.
begin: Begin | None = None


def trace(hook: Begin) -> Callable[[], None]:
    """Have ``hook`` begin a span around every attempt from now on; what is returned ends that."""
    global begin
    begin = hook
    # The short way of a first attempt has no room for it.
    Exchange.simple = False

    def untrace() -> None:
        global begin
        if begin is hook:
            begin = None
            Exchange.simple = True

    return untrace
