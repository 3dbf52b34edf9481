"""The one place that looks behind grpc's public names: how a sync interceptor was reached.

A sync interceptor does not know whether its caller waits (``stub.Method(...)``) or wants a future
(``stub.Method.future(...)``), and a call that is waited for cannot be cancelled. Both
are known to the function that grpc hands to the interceptor. If a release of grpc hides them, calls
still work: a future is then waited for, and the losers of a hedge run to their deadline.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import grpc

    from .rpc import Start


def wants_future(continuation: Start) -> bool:
    """Return True if ``continuation`` starts a call and gives its future, instead of waiting for the end."""
    return "future" in getattr(getattr(continuation, "__code__", None), "co_names", ())


def startable(continuation: Start) -> Start:
    """``continuation`` in the form that gives a future, which can be cancelled; itself if there is none."""
    code = getattr(continuation, "__code__", None)
    cells = getattr(continuation, "__closure__", None) or ()
    variables = {} if code is None else dict(zip(code.co_freevars, cells, strict=False))
    thunk = getattr(variables["self"].cell_contents, "_thunk", None) if "self" in variables else None
    if thunk is None or wants_future(continuation):
        return continuation

    def start(details: grpc.ClientCallDetails, request: object) -> Any:
        return thunk(details.method).future(
            request,
            timeout=details.timeout,
            metadata=details.metadata,
            credentials=details.credentials,
            wait_for_ready=details.wait_for_ready,
            compression=details.compression,
        )

    return start
