"""The fallback: an answer of its own when the call inside fails."""

from __future__ import annotations

from .._classify.on_clause import On, judge, unwrap_marker
from .._events import bus, labels
from .._primitives.errors import Cancelled
from .._primitives.options import Options, source
from .._runtime.call_template import Template
from .._runtime.function_kind import function_kind
from .generator_calls import in_async
from .protocol import CallWrapper, Env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .protocol import Fn


class Fallback(CallWrapper, Options):
    """Return ``value`` when the call inside fails in a way that ``on`` matches.

    A callable is called instead: with the error if it takes a positional argument, without if it
    takes none; a class only if it needs one. An async callable is awaited, and works in async code
    alone. For a generator function the fallback gives the items, and stands in only until the first
    one is out. Stormproof's refusals (`CircuitOpen`, `BudgetExhausted`, ...) are failures like any
    other here; cancellation, `Cancelled` included, is never caught. A plain value is the same object
    each time: give ``list``, not ``[]``, for a new one per call.
    """

    def __init__(self, value: object, *, on: On = Exception) -> None:
        self.value = value
        self.on = on
        self._judge = judge(on, "Fallback", names_refusals=True)
        self._takes_error: bool = callable(value) and _takes_error(value)

    def _matches(self, error: Exception) -> bool:
        cause = unwrap_marker(error)[0] or error
        return not isinstance(cause, Cancelled) and isinstance(cause, Exception) and self._judge(cause).retry

    def _answer(self, error: Exception, operation: str) -> Any:
        failure = unwrap_marker(error)[0] or error
        bus.publish("FellBack", operation=operation, error=labels.error_name(failure))
        if not callable(self.value):
            return self.value
        return self.value(failure) if self._takes_error else self.value()

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        if not is_async and callable(self.value) and "async" in function_kind(self.value):
            raise TypeError(
                f"Fallback: value must not be async where the call is not, got {source(self.value)}"
            )

        def answer(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return self._answer(error, env.operation(args))

        async def answer_async(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            value = answer(error, args, kwargs)
            if callable(self.value) and hasattr(value, "__await__"):
                value = await value
            return in_async(env, value)

        names = {"answer": answer_async if is_async else answer, "call": call, "matches": self._matches}
        return _CAUGHT.build(like, is_async, names)


_CAUGHT = Template(
    "caught",
    """\
{async_}def caught({params}):
    try:
        return {await_}_sp_call({args})
    except Exception as _sp_error:
        if not _sp_matches(_sp_error):
            raise
        return {await_}_sp_answer(_sp_error, {packed})
""",
)


def _takes_error(value: Callable[..., Any]) -> bool:
    """Return True if ``value`` is to be called with the error."""
    import inspect

    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        # Some built-in types have no signature; those that matter here (dict, list) need no argument.
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(needed) > 1 or keywords:
        raise TypeError(
            "Fallback: value must be callable without arguments or with the error alone, "
            f"got {source(value)}{inspect.signature(value)}"
        )
    if isinstance(value, type):
        return bool(needed)
    return bool(positional) or any(p.kind is p.VAR_POSITIONAL for p in parameters)
