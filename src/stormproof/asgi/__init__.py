"""Middleware for any ASGI server and framework: the server's half of the retry contract.

Outermost first, a service wants them in this order::

    RefusalMiddleware      what a handler gave up on becomes the right status
    DeadlineMiddleware     the caller's remaining time is the handler's deadline, waiting included
    SheddingMiddleware     a bound on the requests in flight
    IdempotencyMiddleware  one execution per key
"""

from __future__ import annotations

from .deadline import DeadlineMiddleware
from .idempotency import IdempotencyMiddleware
from .refusal import RefusalMiddleware
from .shedding import SheddingMiddleware
from .status import StatusApp

__all__ = [
    "DeadlineMiddleware",
    "IdempotencyMiddleware",
    "RefusalMiddleware",
    "SheddingMiddleware",
    "StatusApp",
]
