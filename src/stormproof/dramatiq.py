"""Dramatiq: a policy decides about a message's retries, which wait in the broker and not in the worker.

::

    stormproof.dramatiq.install(broker)

    @dramatiq.actor(policy=policy)
    def send_mail(address): ...

`install` puts `Policies` where Dramatiq's own ``Retries`` was: the policy's `Retry` judges what a run
raised, its waits become the delay of the message, and what it gives up on is dead-lettered by the
broker. Every other strategy of the policy runs around each run.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from ._primitives.extras import extra

with extra("dramatiq"):
    from dramatiq import Middleware, get_logger
    from dramatiq.middleware import MiddlewareError, Retries, Shutdown, TimeLimitExceeded

from ._context.deadlines import is_off
from ._primitives.errors import AttemptTimeout
from ._queues.requeue import Again, Memory, Requeue
from ._queues.task_settings import TaskPostponed, TaskSettings, key_options
from ._runtime.clock import wall

if TYPE_CHECKING:
    from dramatiq import Actor, Broker
    from dramatiq.broker import MessageProxy

    from ._policy.policy import Policy
    from ._primitives.options import Seconds
    from .idempotency import Store

_OPTION = "stormproof"
_log = get_logger(__name__)  # type: ignore[no-untyped-call]

#: The id of the message whose actor is about to run in this thread.
_message_id: ContextVar[str | None] = ContextVar("stormproof_dramatiq_message", default=None)


def _take_message_id() -> str | None:
    """Return the message's id, once: actors called directly inside have no message of their own."""
    message_id = _message_id.get()
    _message_id.set(None)
    return message_id


#: Options of Dramatiq's own middleware about when to retry.
_THEIRS = {"max_retries", "min_backoff", "max_backoff", "retry_when", "throws", "on_retry_exhausted"}


class BadActor(MiddlewareError, ValueError):
    """An actor whose options cannot be followed; Dramatiq only logs other errors of middleware."""


class Policies(Middleware):
    """Retries messages as policies say. An actor names its own: ``@actor(policy=...)``.

    ``policy`` is for the actors that name none; ``None`` lets their messages fail at once.
    ``idempotency`` is a store of `stormproof.idempotency`: a message's id is then its key, so that a message
    delivered twice runs once. ``lease`` is how long the key of a lost worker stays taken; after it
    ``on_unknown="run"`` runs the actor again, and "error" lets the message fail with `OutcomeUnknown`.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        idempotency: Store | None = None,
        lease: Seconds = 60.0,
        on_unknown: Literal["error", "run"] = "error",
    ) -> None:
        self._options = key_options("dramatiq.Policies", idempotency, lease, on_unknown)
        self._default = None if policy is None else self._settings(policy)
        self._rules: dict[str, tuple[TaskSettings, Requeue]] = {}

    def _settings(self, policy: Policy) -> TaskSettings:
        return TaskSettings("dramatiq.Policies", policy, *self._options)

    @property
    def actor_options(self) -> set[str]:
        return {"policy"}

    def before_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        try:
            settings = self._settings_of(actor)
        except (TypeError, ValueError) as error:
            raise BadActor(f"actor {actor.actor_name!r}: {error}") from error
        if settings is None:
            return
        requeue = settings.requeue(actor.actor_name)
        self._rules[actor.actor_name] = settings, requeue
        actor.fn = settings.attempt(actor.fn, requeue, actor.actor_name, _take_message_id)

    def _settings_of(self, actor: Actor[Any, Any]) -> TaskSettings | None:
        for option in _THEIRS & actor.options.keys():
            given = actor.options[option]
            raise ValueError(
                f"dramatiq.Policies: {option} must not be given, the policy decides; got {given!r}"
            )
        own = actor.options.get("policy")
        return self._default if own is None else self._settings(own)

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        _message_id.set(message.message_id)
        if (rule := self._rule(message)) is not None:
            rule[1].started(self._memory(message), message.args, message.kwargs)

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: object = None,
        exception: BaseException | None = None,
    ) -> None:
        rule, memory = self._rule(message), self._memory(message)
        if exception is None:
            if rule is not None:
                rule[1].succeeded(memory, wall(), message.args, message.kwargs)
        elif isinstance(exception, Shutdown):
            # The worker shuts down: an interrupted run does not count as an attempt.
            self._later(broker, message, 0.0, memory)
        elif rule is None or not isinstance(exception, (Exception, TimeLimitExceeded)):
            message.fail()
        elif isinstance(exception, TaskPostponed):
            self._later(broker, message, exception.wait, memory)
        else:
            answer = rule[1].failed(_judged(exception), memory, wall(), message.args, message.kwargs)
            if isinstance(answer, Again):
                self._later(broker, message, answer.wait, answer.memory)
            else:
                text = (
                    "actor %s: message %s failed for good (%s, attempts made: %d): left to the dead letters"
                )
                kind = type(answer.error).__name__
                _log.error(text, message.actor_name, message.message_id, kind, memory.attempts + 1)
                message.fail()

    def _rule(self, message: MessageProxy) -> tuple[TaskSettings, Requeue] | None:
        return None if is_off() else self._rules.get(message.actor_name)

    def _memory(self, message: MessageProxy) -> Memory:
        return Memory.from_data(message.options.get(_OPTION))

    def _later(self, broker: Broker, message: MessageProxy, wait: float, memory: Memory) -> None:
        message.options[_OPTION] = memory.to_data()
        try:
            # Rounded up: a server's hint is never cut short.
            broker.enqueue(message, delay=math.ceil(wait * 1000))  # type: ignore[arg-type]
        except Exception:
            # Otherwise the worker would acknowledge the message, and it would be lost.
            message.fail()
            raise


def _judged(exception: BaseException) -> Exception:
    """Return the error that the policy judges: a time limit counts as the timeout of one attempt."""
    if isinstance(exception, Exception):
        return exception
    error = AttemptTimeout(f"the actor took longer than its time limit ({type(exception).__name__})")
    error.__cause__ = exception
    return error


def install(
    broker: Broker,
    policy: Policy | None = None,
    *,
    idempotency: Store | None = None,
    lease: Seconds = 60.0,
    on_unknown: Literal["error", "run"] = "error",
) -> Policies:
    """Put `Policies` into ``broker``, in the place of Dramatiq's own ``Retries``.

    To be called before actors are declared.
    """
    if broker.actors:
        names = ", ".join(sorted(broker.actors))
        raise ValueError(f"dramatiq.install: broker must have no actors yet, got {names}")
    policies = Policies(policy, idempotency=idempotency, lease=lease, on_unknown=on_unknown)
    retries = next((middleware for middleware in broker.middleware if isinstance(middleware, Retries)), None)
    if retries is None:
        broker.add_middleware(policies)
    else:
        broker.add_middleware(policies, before=Retries)
        broker.middleware.remove(retries)
    return policies
