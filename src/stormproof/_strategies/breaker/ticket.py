"""A call that a breaker admitted, until it is settled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from .rules.circuit import Probe, WindowBucket

    class Breaker(Protocol):
        """The breaker that admitted the call."""

        def outcome_of(self, error: BaseException) -> str: ...

        def settle(self, ticket: Ticket, outcome: str, error: BaseException | None) -> None: ...


class Ticket:
    """One admitted call. The first of success(), failure() and cancel() counts; the rest do nothing.

    As a context manager it settles itself by how the block ends.
    """

    __slots__ = ("_breaker", "_is_neutral", "began", "bucket", "probe", "slow")

    def __init__(
        self,
        breaker: Breaker | None,
        bucket: WindowBucket | None,
        probe: Probe | None,
        began: float,
        is_neutral: bool = False,
    ) -> None:
        self._breaker = breaker
        #: True if the call counts as excluded, however it ends.
        self._is_neutral = is_neutral
        self.bucket = bucket
        self.probe = probe
        self.began = began
        #: True if the call was counted as slow while it ran.
        self.slow = False

    def _end(self, outcome: str, error: BaseException | None = None) -> None:
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker.settle(self, "excluded" if self._is_neutral else outcome, error)

    def success(self) -> None:
        """The call succeeded."""
        self._end("success")

    def failure(self, error: BaseException | None = None) -> None:
        """The call failed with ``error``, which becomes `CircuitOpen.last_failure`."""
        self._end("failure", error)

    def cancel(self) -> None:
        """The call does not count: its place is free again."""
        self._end("excluded")

    def end(self, error: BaseException) -> None:
        """The call raised ``error``, which counts as the breaker's ``on`` and ``exclude`` say."""
        if self._breaker is not None:
            try:
                outcome = self._breaker.outcome_of(error)
            except BaseException:
                self.cancel()
                raise
            self._end(outcome, error)

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.success()
        else:
            self.end(error)
