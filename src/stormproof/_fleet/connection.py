"""The way to Redis or Valkey: one server, a Sentinel set or a cluster, with our timeout and no retries.

Nothing here connects before it has to, so a server that is down never keeps an object from being made.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from .._runtime.locks import guard
from .address import Address

if TYPE_CHECKING:
    from collections.abc import Sequence


class Request(NamedTuple):
    """One run of a script on one key."""

    script: str
    key: str
    args: tuple[str | int | bytes, ...]


class Script(NamedTuple):
    """A constant Lua script: its text, and the name that the server knows it by."""

    text: str
    sha: str


#: Errors of a server that can serve no request now: not writable, no memory, no cluster.
_REFUSALS: tuple[type[Exception], ...] = (
    redis.ReadOnlyError,
    exceptions.ClusterError,
    exceptions.OutOfMemoryError,
)

#: Servers before 7 wrap an error inside a script in one of their own.
_WRAPPED = ("READONLY", "OOM ", "MASTERDOWN", "LOADING", "CLUSTERDOWN")


def is_unavailable(error: Exception) -> bool:
    """Return True if ``error`` means that the store cannot be used now, not that one request is wrong.

    Any error not sent by a server counts: not reached, no answer, or one that makes no sense.
    """
    if isinstance(error, (redis.ResponseError, redis.DataError)):
        return isinstance(error, _REFUSALS) or any(word in str(error)[:400] for word in _WRAPPED)
    return True


def is_answer(error: Exception) -> bool:
    """Return True if a server that can be used has sent ``error``."""
    return isinstance(error, redis.ResponseError) and not is_unavailable(error)


@cache
def script(name: str) -> Script:
    """The script ``lua/<name>.lua`` of this package."""
    from hashlib import sha1

    text = (files("stormproof._fleet") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    # Redis names scripts by their SHA-1; nothing depends on its strength.
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def _plain_connections() -> dict[str, Any]:
    """Switches off a feature of newer clients: announced maintenance would stretch our timeout."""
    try:
        from redis.maint_notifications import MaintNotificationsConfig
    except ImportError:
        return {}
    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}


class StoreConnection:
    """Runs scripts. Thread-safe; each call is bounded by ``timeout_s`` for connecting and for the answer."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._client: Any = None
        self._lock = guard(self)
        #: Number of times a server did not know a script and was sent its text.
        self.reloads = 0

    def client(self) -> Any:
        """The redis-py client, made at the first use. A cluster's is made by asking it for its slots."""
        client = self._client
        if client is not None:
            return client
        # Made without the lock, since a cluster's asks the server; of two racers the first one in counts.
        new_client = self._address.connect(self._settings())
        with self._lock:
            if self._client is None:
                self._client = new_client
            client = self._client
        if client is not new_client:
            new_client.close()
        return client

    def _settings(self) -> dict[str, Any]:
        return {
            "socket_timeout": self._timeout_s,
            "socket_connect_timeout": self._timeout_s,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
            "health_check_interval": 0,
            "decode_responses": False,
            **_plain_connections(),
        }

    def run(self, request: Request) -> Any:
        """The script's answer. A server that lost the script (restart, SCRIPT FLUSH) is sent its text."""
        known = script(request.script)
        client = self.client()
        try:
            return client.evalsha(known.sha, 1, request.key, *request.args)
        except exceptions.NoScriptError:
            self.reloads += 1
            return client.eval(known.text, 1, request.key, *request.args)

    def run_all(self, requests: Sequence[Request]) -> list[Any]:
        """The answers of all in one round trip, an error in the place of each that failed on its own.

        Raises what makes the whole round fail. A cluster, whose pipelines take no scripts, is asked
        one by one.
        """
        client = self.client()
        if len(requests) == 1 or self._address.is_cluster:
            return [self._run_single(request) for request in requests]
        pipe = client.pipeline(transaction=False)
        for request in requests:
            pipe.evalsha(script(request.script).sha, 1, request.key, *request.args)
        answers: list[Any] = pipe.execute(raise_on_error=False)
        for place, answer in enumerate(answers):
            if isinstance(answer, exceptions.NoScriptError):
                answers[place] = self._run_single(requests[place])
            elif isinstance(answer, Exception) and is_unavailable(answer):
                raise answer
        return answers

    def _run_single(self, request: Request) -> Any:
        try:
            return self.run(request)
        except Exception as error:
            if is_unavailable(error):
                raise
            return error

    def forget(self) -> None:
        """Drop the client without a word to the server: its sockets belong to a parent process."""
        self._client = None

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
            # A client leaves a pool alone that it was given.
            pool = getattr(client, "connection_pool", None)
            if pool is not None:
                pool.disconnect()
