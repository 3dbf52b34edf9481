"""gRPC: interceptors for both ends of a call, and service configs.

    channel = grpc.intercept_channel(channel, *interceptors(policy))
    channel = grpc.aio.insecure_channel(target, interceptors=aio_interceptors(policy))
    server = grpc.server(pool, interceptors=server_interceptors())

Reading order: `rpc` (one call and its attempts), `client` and `aio` (how they are made), `answers` (what
a server says), `server` and `aio_server`.
"""

from __future__ import annotations

from .._primitives.extras import extra
from ..presets.service_config import from_service_config
from ..presets.service_config_text import LossyServiceConfig, to_service_config

with extra("grpc"):
    from . import aio as _aio
from . import aio_server as _aio_server
from . import client as _client
from . import server as _server
from .answers import Door as _Door
from .refusals import (
    RpcAttemptTimeout,
    RpcBudgetExhausted,
    RpcBulkheadFull,
    RpcCancelled,
    RpcCircuitOpen,
    RpcDeadlineExceeded,
    RpcRateLimited,
    RpcRefused,
    RpcThrottled,
)
from .rpc import ATTEMPTS as _ATTEMPTS
from .rpc import Rpc
from .rpc import Wire as _Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from .._primitives.options import Seconds
    from .._strategies.adaptive.limit import AdaptiveLimit
    from .._strategies.bulkhead.bulkhead import Bulkhead
    from .routes import ByMethod

__all__ = [
    "LossyServiceConfig",
    "Rpc",
    "RpcAttemptTimeout",
    "RpcBudgetExhausted",
    "RpcBulkheadFull",
    "RpcCancelled",
    "RpcCircuitOpen",
    "RpcDeadlineExceeded",
    "RpcRateLimited",
    "RpcRefused",
    "RpcThrottled",
    "aio_interceptors",
    "aio_server_interceptors",
    "from_service_config",
    "interceptors",
    "server_interceptors",
    "to_service_config",
]


def interceptors(
    policy: ByMethod,
    *,
    idempotent: Collection[str] | Callable[[str], bool] = (),
    replay_messages: int | None = 1000,
    replay_bytes: int | None = 4 * 2**20,
    attempt_metadata: tuple[str, ...] = _ATTEMPTS,
) -> list[Any]:
    """Client interceptors: ``grpc.intercept_channel(channel, *interceptors(policy))``.

    ``policy`` is a `Policy`, a mapping of policies by method ("pkg.Service/Method"), service
    ("pkg.Service") or "" for all others (a `Registry`, or what `from_service_config` gives), or a function
    from the full method name to a policy; methods without one are left alone, but for the ambient deadline.

    ``idempotent``: the methods, by name or by a function of it, that a ``Hedge`` without
    ``idempotent=True`` may hedge. ``replay_messages`` and ``replay_bytes``: a request stream given as a
    list is sent again only up to this size; ``None``: no limit, 0 allows none. ``attempt_metadata``: the
    names under which attempts after the first send the number of earlier ones; ``()`` sends none.
    """
    wire = _Wire(idempotent, replay_messages, replay_bytes, attempt_metadata)
    return [_client.ClientInterceptor(policy, wire)]


def aio_interceptors(
    policy: ByMethod,
    *,
    idempotent: Collection[str] | Callable[[str], bool] = (),
    replay_messages: int | None = 1000,
    replay_bytes: int | None = 4 * 2**20,
    attempt_metadata: tuple[str, ...] = _ATTEMPTS,
) -> list[Any]:
    """`interceptors` for ``grpc.aio.insecure_channel(target, interceptors=aio_interceptors(policy))``."""
    return _aio.make(policy, _Wire(idempotent, replay_messages, replay_bytes, attempt_metadata))


def server_interceptors(
    *,
    least: Seconds = 0.0,
    shed: int | Bulkhead | AdaptiveLimit | None = None,
    retry_share: float = 0.8,
    pushback: Seconds = 1.0,
) -> list[Any]:
    """Server interceptors: ``grpc.server(pool, interceptors=server_interceptors())``.

    The caller's remaining time becomes the ambient deadline of the handler; a call with no more than
    ``least`` seconds left is refused (0: only what is already late). A handler that gives up
    (`CircuitOpen`, `BudgetExhausted`, ..., or an error that was retried to exhaustion) answers with the
    status that says so and "do not retry".

    ``shed`` bounds the calls inside: a number, a `Bulkhead`, an `AdaptiveLimit`; ``None``: no bound. A call
    without a place is answered with UNAVAILABLE and a pushback of ``pushback`` to twice as many seconds.
    Retries are let in only while less than ``retry_share`` of the places is taken; 1 treats them as any call,
    0 lets none in.
    """
    return [_server.ServerInterceptor(_Door(least, shed, retry_share, pushback))]


def aio_server_interceptors(
    *,
    least: Seconds = 0.0,
    shed: int | Bulkhead | AdaptiveLimit | None = None,
    retry_share: float = 0.8,
    pushback: Seconds = 1.0,
) -> list[Any]:
    """`server_interceptors` for ``grpc.aio.server(interceptors=...)``.

    An async handler is cut off when its caller's time is over.
    """
    return [_aio_server.AioServerInterceptor(_Door(least, shed, retry_share, pushback))]
