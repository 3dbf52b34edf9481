"""The retry object for tornado's generator coroutines. Needs tornado."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tornado import gen

from ._retrying import BaseRetrying
from ._state import DoAttempt, DoSleep, RetryCallState


class TornadoRetrying(BaseRetrying):
    """Retries a function that returns a tornado future."""

    default_sleep = staticmethod(gen.sleep)

    @gen.coroutine
    def __call__(self, fn: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        self.begin()
        retry_state = RetryCallState(self, fn=fn, args=args, kwargs=kwargs)
        while True:
            action = self.iter(retry_state=retry_state)
            if isinstance(action, DoAttempt):
                try:
                    result = yield fn(*args, **kwargs)
                except BaseException:
                    retry_state.set_exception(sys.exc_info())  # type: ignore[arg-type]
                else:
                    retry_state.set_result(result)
            elif isinstance(action, DoSleep):
                yield self.pause(retry_state, action)
            else:
                raise gen.Return(action)
