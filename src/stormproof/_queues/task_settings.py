"""Shared by the task queues: the settings of a task, and the wrapper around each of its attempts."""

from __future__ import annotations

from .._primitives.options import Seconds, choice, seconds
from ..idempotency import IdempotencyConflict, Store, StoreUnavailable, idempotent
from .requeue import Requeue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._policy.policy import Policy
    from .._primitives.errors import StormproofError


#: Time for which a store that did not answer is left alone.
_STORE_DOWN_S = 5.0
#: A lease about to end is not asked for over and over.
_LEAST_S = 0.1


def key_options(
    owner: str, idempotency: Store | None, lease: Seconds, on_unknown: str
) -> tuple[Store | None, float, str]:
    """Return the options about keys, validated."""
    if idempotency is not None and not isinstance(idempotency, Store):
        raise TypeError(f"{owner}: idempotency must be a store such as SqliteStore(), got {idempotency!r}")
    lease_s = seconds(owner, "lease", lease, above=0)
    return idempotency, lease_s, choice(owner, "on_unknown", on_unknown, ("error", "run"))


class TaskSettings:
    """Checked when they are given, not when the first task fails."""

    def __init__(
        self,
        owner: str,
        policy: Policy,
        idempotency: Store | None,
        lease: Seconds,
        on_unknown: str,
        dead_letter: object = None,
    ) -> None:
        Requeue(policy, owner, owner)
        self.idempotency, self.lease_s, self.on_unknown = key_options(owner, idempotency, lease, on_unknown)
        if dead_letter is not None and not callable(dead_letter):
            if not isinstance(dead_letter, str) or not dead_letter:
                raise TypeError(
                    f"{owner}: dead_letter must be a queue's name, a function or None, got {dead_letter!r}"
                )
        self.owner = owner
        self.policy = policy
        self.dead_letter = dead_letter

    def requeue(self, name: str) -> Requeue:
        """The rule for the task ``name``."""
        return Requeue(self.policy, name, self.owner)

    def attempt(
        self, run: Callable[..., Any], requeue: Requeue, name: str, key: Callable[[], str | None]
    ) -> Callable[..., Any]:
        """``run`` under the policy's other strategies, and at most once per ``key()`` if there is a store.

        A key that is taken, or cannot be asked for, is a `TaskPostponed`. Without a key it simply runs.
        """

        # The strategies look at a function's own signature; a bound method or a partial has none.
        def attempt(*args: object, **kwargs: object) -> Any:
            return run(*args, **kwargs)

        guarded = attempt if requeue.inner is None else requeue.inner(attempt)
        return guarded if self.idempotency is None else self._once(guarded, self.idempotency, name, key)

    def _once(
        self, guarded: Callable[..., Any], store: Store, name: str, key: Callable[[], str | None]
    ) -> Callable[..., Any]:
        def carried(task_id: str, args: Any, kwargs: Any) -> Any:
            try:
                return guarded(*args, **kwargs)
            except _ABOUT_KEYS as error:
                # The task's own errors about keys are about other keys than this one.
                raise _Carried(error) from error

        once = idempotent(
            key=lambda task_id, args, kwargs: task_id,
            store=store,
            lease=self.lease_s,
            on_unknown=self.on_unknown,  # type: ignore[arg-type]
            scope=name[:255],
        )(carried)

        def attempt(*args: object, **kwargs: object) -> Any:
            task_id = key()
            if task_id is None:
                return guarded(*args, **kwargs)
            try:
                return once(task_id, args, kwargs)
            except _ABOUT_KEYS as busy:
                raise TaskPostponed(self._look_again(busy)) from busy
            except _Carried as carrier:
                error = carrier.error
            raise error

        return attempt

    def _look_again(self, busy: StormproofError) -> float:
        """Seconds after which to ask for the key again.

        Another worker holds it. If that worker is lost, the key is free when its lease ends.
        """
        left = getattr(busy, "lease_left", None)
        return min(_STORE_DOWN_S, self.lease_s) if left is None else max(left, _LEAST_S)


_ABOUT_KEYS = (IdempotencyConflict, StoreUnavailable)


class TaskPostponed(Exception):
    """The task's key is taken, or its store silent: nothing ran; look again after ``wait`` seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__(wait)
        self.wait = wait


class _Carried(Exception):
    """An error of the task's, on its way past the store."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error
