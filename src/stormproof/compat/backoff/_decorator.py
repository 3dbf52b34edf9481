"""The two decorators."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable
from typing import Any, cast

from ..._policy.policy import Policy
from ...presets.policy_of import make_readable
from . import _async, _log, _sync
from ._jitter import full_jitter
from ._plan import Plan, is_async, make_plan, never
from ._policy import policy_of_exceptions, policy_of_results
from ._typing import (
    _CallableT,
    _Handler,
    _Jitterer,
    _MaybeCallable,
    _MaybeLogger,
    _MaybeSequence,
    _WaitGenerator,
)

_log.configure()


def on_exception(
    wait_gen: _WaitGenerator,
    exception: _MaybeSequence[type[BaseException]],
    *,
    max_tries: _MaybeCallable[int] | None = None,
    max_time: _MaybeCallable[float] | None = None,
    jitter: _Jitterer | None = full_jitter,
    giveup: Callable[[Any], Any] = never,
    on_try: _Handler | Iterable[_Handler] | None = None,
    on_success: _Handler | Iterable[_Handler] | None = None,
    on_backoff: _Handler | Iterable[_Handler] | None = None,
    on_giveup: _Handler | Iterable[_Handler] | None = None,
    raise_on_giveup: bool = True,
    logger: _MaybeLogger = "backoff",
    backoff_log_level: int = logging.INFO,
    giveup_log_level: int = logging.ERROR,
    **wait_gen_kwargs: object,
) -> Callable[[_CallableT], _CallableT]:
    """Retry the decorated function while it raises ``exception`` (a type or several).

    The wait after try n is ``jitter`` of the n-th value of ``wait_gen(**wait_gen_kwargs)``; ``jitter=None``
    leaves that value as it is.

    It gives up when ``giveup(error)`` is true, at try number ``max_tries``, when ``max_time`` seconds had
    passed at the start of the failed try, or when the wait generator ends. Both limits and the generator's
    keywords may be callables, called anew for each call; None means no limit, and so does ``max_tries=0``.
    Giving up raises the error, or with ``raise_on_giveup=False`` returns None.

    Each ``on_`` handler, or each of an iterable of them, is given a ``Details`` dict; ``on_try`` runs before
    each try. ``logger`` is a name, a logger or an adapter; None logs nothing.
    """
    plan = make_plan("on_exception", **locals())

    def decorate(target: _CallableT) -> _CallableT:
        return _decorated(target, plan, lambda: policy_of_exceptions(plan))

    return decorate


def on_predicate(
    wait_gen: _WaitGenerator,
    predicate: Callable[[Any], Any] = operator.not_,
    *,
    max_tries: _MaybeCallable[int] | None = None,
    max_time: _MaybeCallable[float] | None = None,
    jitter: _Jitterer | None = full_jitter,
    on_try: _Handler | Iterable[_Handler] | None = None,
    on_success: _Handler | Iterable[_Handler] | None = None,
    on_backoff: _Handler | Iterable[_Handler] | None = None,
    on_giveup: _Handler | Iterable[_Handler] | None = None,
    logger: _MaybeLogger = "backoff",
    backoff_log_level: int = logging.INFO,
    giveup_log_level: int = logging.ERROR,
    **wait_gen_kwargs: object,
) -> Callable[[_CallableT], _CallableT]:
    """Retry the decorated function while ``predicate`` is true of what it returns.

    The default predicate is true of a falsy value. Giving up returns the last value.
    Everything else is as in ``on_exception``.
    """
    plan = make_plan("on_predicate", **locals())

    def decorate(target: _CallableT) -> _CallableT:
        return _decorated(target, plan, lambda: policy_of_results(plan, predicate))

    return decorate


def _decorated(target: _CallableT, plan: Plan, policy: Callable[[], Policy]) -> _CallableT:
    """Return ``target`` under ``plan``, readable by `stormproof.policy_of`."""
    loop = _async.retry_function if is_async(target) else _sync.retry_function
    wrapped = loop(target, plan)
    make_readable(wrapped, policy)
    return cast("_CallableT", wrapped)
