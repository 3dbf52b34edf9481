"""Where the store is: a URL, the name of an environment variable that holds one, or a redis-py client."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
import redis.cluster
import redis.sentinel

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_PLAIN = ("redis", "rediss", "unix")
_RULE = (
    "must be redis://, rediss://, unix://, redis+sentinel://host:port,.../service/db or redis+cluster://, "
    "'env:NAME', or a redis-py client"
)


class Address:
    """How to connect, and how to say so without giving a password away."""

    def __init__(self, target: Any, cluster: bool | None = None) -> None:
        self.target = target
        if isinstance(target, str):
            self._url = _from_environment(target) if target.startswith("env:") else target
            self._parts = _split(self._url, target)
            scheme = self._parts.scheme
            self.is_cluster = scheme.endswith("+cluster") if cluster is None else cluster
            self.is_sentinel = scheme.endswith("+sentinel")
        elif isinstance(target, (redis.Redis, redis.cluster.RedisCluster)):
            self.is_cluster = isinstance(target, redis.cluster.RedisCluster)
            self.is_sentinel = False
        else:
            raise TypeError(f"RedisStore: url {_RULE}, got a {type(target).__name__}")

    @property
    def has_secret(self) -> bool:
        """Whether pickling or printing the target would carry a password along."""
        if not isinstance(self.target, str):
            return True
        return not self.target.startswith("env:") and (
            self._parts.password is not None or self._parts.username is not None or bool(self._parts.query)
        )

    def __str__(self) -> str:
        """The address for people: host and database, never userinfo or options."""
        if not isinstance(self.target, str):
            return f"<{type(self.target).__name__}>"
        if self.target.startswith("env:"):
            return self.target
        parts = self._parts
        _, at, hosts = parts.netloc.rpartition("@")
        return f"{parts.scheme}://{'***@' if at else ''}{hosts}{parts.path}{'?***' if parts.query else ''}"

    def connect(self, settings: dict[str, Any]) -> Any:
        """A client of our own, with ``settings`` in place of whatever the target says about them."""
        if not isinstance(self.target, str):
            return _like(self.target, settings)
        if self.is_sentinel:
            return self._sentinel(settings)
        url = self._url.replace("+cluster", "", 1) if "+cluster://" in self._url else self._url
        url = url.replace("valkey", "redis", 1) if url.startswith("valkey") else url
        if self.is_cluster:
            settings = {key: value for key, value in settings.items() if not key.startswith("retry_on")}
            return redis.cluster.RedisCluster.from_url(url, **settings)
        pool = redis.ConnectionPool.from_url(url)
        pool.connection_kwargs.update(settings)
        return redis.Redis(connection_pool=pool)

    def _sentinel(self, settings: dict[str, Any]) -> Any:
        userinfo, _, hosts = self._parts.netloc.rpartition("@")
        service, _, database = self._parts.path.strip("/").partition("/")
        user, _, password = userinfo.partition(":")
        options: dict[str, Any] = {**dict(parse_qsl(self._parts.query)), **settings}
        if password:
            options["password"] = unquote(password)
        if user:
            options["username"] = unquote(user)
        nodes = [_host_and_port(host, 26379) for host in hosts.split(",")]
        own = {"socket_timeout": settings["socket_timeout"], "retry": settings["retry"]}
        own["socket_connect_timeout"] = settings["socket_connect_timeout"]
        make: Any = redis.sentinel.Sentinel
        sentinel = make(nodes, sentinel_kwargs=own)
        return sentinel.master_for(service, db=int(database or 0), **options)


def _from_environment(target: str) -> str:
    name = target.removeprefix("env:")
    if not os.environ.get(name):
        raise ValueError(f"RedisStore: url names the environment variable {name!r}, which is not set")
    return os.environ[name]


def _split(url: str, shown: str) -> SplitResult:
    # The text itself may hold a password, so an error says the scheme and no more.
    try:
        parts = urlsplit(url)
        if "+sentinel" not in parts.scheme:
            _ = parts.port
    except ValueError:
        raise ValueError(f"RedisStore: url {_RULE}; this one cannot be read") from None
    scheme, _, way = parts.scheme.partition("+")
    scheme = scheme.replace("valkey", "redis")
    if scheme not in _PLAIN or way not in ("", "sentinel", "cluster") or (way and scheme == "unix"):
        where = shown if shown.startswith("env:") else f"the scheme {parts.scheme!r}"
        raise ValueError(f"RedisStore: url {_RULE}, got {where}")
    if way == "sentinel" and not parts.path.strip("/"):
        raise ValueError(
            "RedisStore: url of a Sentinel set must name its service, as in //host:26379/mymaster"
        )
    return parts


def _host_and_port(text: str, port: int) -> tuple[str, int]:
    host, colon, number = text.rpartition(":")
    return (host, int(number)) if colon else (text, port)


def _like(client: Any, settings: dict[str, Any]) -> Any:
    """A client for where ``client`` goes, that waits no longer and retries no more than ours do."""
    if isinstance(client, redis.cluster.RedisCluster):
        nodes = client.nodes_manager
        kept = {key: value for key, value in nodes.connection_kwargs.items() if key not in ("host", "port")}
        ours = {key: value for key, value in settings.items() if not key.startswith("retry_on")}
        node: Any = redis.cluster.ClusterNode
        starts = [node(start.host, start.port) for start in nodes.startup_nodes.values()]
        return redis.cluster.RedisCluster(startup_nodes=starts, **{**kept, **ours})
    pool: Any = client.connection_pool
    kwargs = {**pool.connection_kwargs, **settings}
    if isinstance(pool, redis.sentinel.SentinelConnectionPool):
        kwargs.pop("connection_pool", None)
        return pool.sentinel_manager.master_for(pool.service_name, **kwargs)
    return redis.Redis(connection_pool=type(pool)(connection_class=pool.connection_class, **kwargs))
