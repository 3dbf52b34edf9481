"""One attempt of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .retry import names_interrupts

if TYPE_CHECKING:
    from types import TracebackType

    from ._state import RetryCallState


class AttemptManager:
    """One attempt of a block: ``with attempt:`` (or ``async with``) records how its body ended."""

    def __init__(self, retry_state: RetryCallState) -> None:
        self.retry_state = retry_state

    def __enter__(self) -> None:
        """Begin the attempt."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if exc_type is None or exc_value is None:
            self.retry_state.set_result(None)
            return None
        self.retry_state.set_exception((exc_type, exc_value, traceback))
        return isinstance(exc_value, Exception) or names_interrupts(
            getattr(self.retry_state.retry_object, "retry", None)
        )

    async def __aenter__(self) -> None:
        """Begin the attempt."""

    async def __aexit__(self, *details: Any) -> bool | None:
        return self.__exit__(*details)
