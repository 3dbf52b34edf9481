"""Celery: a policy decides about a task's retries, which wait in the broker and not in the worker.

::

    @app.task(base=stormproof.celery.task_base(policy, dead_letter="mail-dead"))
    def send_mail(address): ...

The policy's `Retry` judges what a run raised; its waits become the ``countdown`` of the task's next
message. Every other strategy of the policy runs around each run. What the rule remembers of earlier
runs travels in the message's headers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ._primitives.extras import extra

with extra("celery"):
    import celery
    from celery.exceptions import Reject, TaskPredicate
    from celery.utils.log import get_logger

from ._context.deadlines import is_off
from ._queues.requeue import Again, Memory, Requeue
from ._queues.task_settings import TaskPostponed, TaskSettings
from ._runtime.clock import wall

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._policy.policy import Policy
    from ._primitives.options import Seconds
    from .idempotency import Store

    DeadLetter = str | Callable[[celery.Task, Exception], object]

_HEADER = "stormproof"
_log = get_logger(__name__)


class PolicyTask(celery.Task):  # type: ignore[misc]
    """A task under a policy; `task_base` makes the base class with the settings in it.

    Acknowledged when it has ended, and handed to another worker when its own is lost: a task runs at
    least once. With an ``idempotency`` store it is run again after a lost worker only if asked.
    """

    abstract = True
    acks_late = True
    reject_on_worker_lost = True
    #: The policy knows when it is enough.
    max_retries = None
    stormproof: TaskSettings

    @classmethod
    def on_bound(cls, app: object) -> None:
        for option in ("max_retries", "autoretry_for"):
            if given := getattr(cls, option, None):
                raise ValueError(
                    f"celery.task_base: {option} of task {cls.name!r} must not be given, the policy decides; "
                    f"got {given!r}"
                )

    @cached_property
    def _requeue(self) -> Requeue:
        return self.stormproof.requeue(str(self.name))

    @cached_property
    def _attempt(self) -> Callable[..., Any]:
        return self.stormproof.attempt(self.run, self._requeue, str(self.name), lambda: self.request.id)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self.request.called_directly or is_off():
            return self.run(*args, **kwargs)
        memory = Memory.from_data((self.request.headers or {}).get(_HEADER))
        self._requeue.started(memory, args, kwargs)
        try:
            result = self._attempt(*args, **kwargs)
        except TaskPredicate:
            # The task itself has decided.
            raise
        except TaskPostponed as postponed:
            raise self._later(postponed, postponed.wait, memory) from None
        except Exception as error:
            answer = self._requeue.failed(error, memory, wall(), args, kwargs)
            if isinstance(answer, Again):
                raise self._later(error, answer.wait, answer.memory) from error
            self._dead_letter(answer.error)
            raise answer.error  # noqa: B904 - it is `error`, or has it as its cause
        self._requeue.succeeded(memory, wall(), args, kwargs)
        return result

    def _later(self, error: Exception, wait: float, memory: Memory) -> Exception:
        """Queue the task again, to be run after ``wait`` seconds; return the exception for the worker."""
        headers = {**(self.request.headers or {}), _HEADER: memory.to_data()}
        again: Exception
        try:
            again = self.retry(exc=error, countdown=wait, headers=headers, throw=False)
        except Reject as refused:
            # The broker did not take it. Celery would drop this message, so it is put back where it was.
            again = Reject(refused.reason, requeue=True)
        return again

    def _dead_letter(self, error: BaseException) -> None:
        """Hand over a task that has failed for good; one that cannot be handed over stays where it was."""
        dead_letter = self.stormproof.dead_letter
        if dead_letter is None or self.request.is_eager:
            return
        try:
            if callable(dead_letter):
                dead_letter(self, error)
            else:
                # The same task under its own id, so that moving the message back is all it takes to run it.
                letter: Any = self.signature_from_request(
                    queue=dead_letter, headers={}, countdown=None, eta=None
                )
                letter.apply_async()
        except Exception as fault:
            raise Reject(fault, requeue=True) from error
        place = f"queue {dead_letter!r}" if isinstance(dead_letter, str) else "its dead-letter function"
        _log.error(
            "task %s[%s] failed for good (%s): handed to %s",
            self.name,
            self.request.id,
            type(error).__name__,
            place,
        )


def task_base(
    policy: Policy,
    *,
    idempotency: Store | None = None,
    lease: Seconds = 60.0,
    on_unknown: Literal["error", "run"] = "error",
    dead_letter: DeadLetter | None = None,
) -> type[PolicyTask]:
    """A base class for ``@app.task(base=...)`` whose tasks are retried as ``policy`` says.

    ``idempotency`` is a store of `stormproof.idempotency`: a task's id is then its key, so that a message
    delivered twice runs once and gives the first run's result. ``lease`` is how long the key of a lost
    worker stays taken; after it ``on_unknown="run"`` runs the task again, and "error" lets it fail with
    `OutcomeUnknown`. ``dead_letter`` is where a task goes that failed for good: the name of a queue, which
    gets the task's message, or a function of the task and its error.
    """
    settings = TaskSettings("celery.task_base", policy, idempotency, lease, on_unknown, dead_letter)
    return type(
        "PolicyTask", (PolicyTask,), {"abstract": True, "stormproof": settings, "__module__": __name__}
    )
