"""The address of the store: a URL, the name of an environment variable with one, or a redis-py client."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import redis
import redis.cluster
import redis.connection
import redis.sentinel

from .._classify.server_hints import is_digits

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_PLAIN = ("redis", "rediss", "unix")
_RULE = (
    "must be redis://, rediss://, unix://, redis+sentinel://host:port,.../service/db or redis+cluster://, "
    "'env:NAME', or a redis-py client"
)
_LONGEST_NAME = 200


class Address:
    """Connects to the store, and describes it without giving a password away."""

    def __init__(self, target: object, cluster: bool | None = None) -> None:
        self.target = target
        if isinstance(target, str):
            self._url = _from_environment(target) if target.startswith("env:") else target
            self._parts = _split(self._url, target)
            scheme = self._parts.scheme
            self.is_cluster = scheme.endswith("+cluster") if cluster is None else cluster
            self.is_sentinel = scheme.endswith("+sentinel")
            self._nodes = _nodes(self._parts, self.is_sentinel)
            self._database = _database(self._parts, self.is_sentinel)
            self._options = _options(self._parts, self.is_cluster)
        elif isinstance(target, (redis.Redis, redis.cluster.RedisCluster)):
            self.is_cluster = isinstance(target, redis.cluster.RedisCluster)
            self.is_sentinel = False
        else:
            raise TypeError(f"RedisStore: url {_RULE}, got a {type(target).__name__}")

    @property
    def has_secret(self) -> bool:
        """True if pickling or printing the target would carry a password along."""
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
        # Text in a path that looks like userinfo most likely is, in an address that was mistyped.
        path = parts.path.rpartition("@")[2]
        hidden = "***@" if at or path != parts.path else ""
        return f"{parts.scheme}://{hidden}{hosts}{path}{'?***' if parts.query else ''}"

    def connect(self, settings: dict[str, Any]) -> Any:
        """Return a client of our own; ``settings`` replace those of the target."""
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
        userinfo, _, _ = self._parts.netloc.rpartition("@")
        user, _, password = userinfo.partition(":")
        options: dict[str, Any] = {"db": self._database, **self._options, **settings}
        if password:
            options["password"] = unquote(password)
        if user:
            options["username"] = unquote(user)
        own = {name: settings[name] for name in ("socket_timeout", "socket_connect_timeout", "retry")}
        if self._parts.scheme.startswith(("rediss", "valkeys")):
            # Sentinels are asked by TLS, too: they say which server the password is sent to.
            own.update({name: value for name, value in options.items() if name.startswith("ssl_")}, ssl=True)
            options["ssl"] = True
        make: Any = redis.sentinel.Sentinel
        sentinel = make(self._nodes, sentinel_kwargs=own)
        service = self._parts.path.strip("/").partition("/")[0]
        return sentinel.master_for(service, **options)


def _from_environment(target: str) -> str:
    name = target.removeprefix("env:")
    if not name.isidentifier() or len(name) > _LONGEST_NAME:
        raise ValueError("RedisStore: url 'env:NAME' must name an environment variable")
    if not os.environ.get(name):
        raise ValueError(f"RedisStore: url names the environment variable {name!r}, which is not set")
    return os.environ[name]


def _split(url: str, shown: str) -> SplitResult:
    # The text itself may hold a password, so an error says the part that is wrong and no more.
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"RedisStore: url {_RULE}; this one cannot be read") from None
    scheme, _, way = parts.scheme.partition("+")
    scheme = scheme.replace("valkey", "redis")
    if scheme not in _PLAIN or way not in ("", "sentinel", "cluster") or (way and scheme == "unix"):
        where = shown if shown.startswith("env:") else f"the scheme {parts.scheme[:40]!r}"
        raise ValueError(f"RedisStore: url {_RULE}, got {where}")
    if way == "sentinel" and not parts.path.strip("/"):
        raise ValueError(
            "RedisStore: url of a Sentinel set must name its service, as in //host:26379/mymaster"
        )
    return parts


def _nodes(parts: SplitResult, is_sentinel: bool) -> list[tuple[str, int]]:
    """The hosts with their ports: several of a Sentinel set, else one; none for a socket file."""
    if parts.scheme == "unix":
        return []
    hosts = parts.netloc.rpartition("@")[2]
    nodes = hosts.split(",") if is_sentinel else [hosts]
    return [_host_and_port(node, 26379 if is_sentinel else 6379, is_sentinel) for node in nodes]


def _host_and_port(text: str, usual: int, named: bool) -> tuple[str, int]:
    bracketed, bracket, rest = text.rpartition("]")
    host, _, number = text.partition(":")
    if bracket:
        host, number = bracketed.removeprefix("["), rest.removeprefix(":")
    if named and not host:
        raise ValueError("RedisStore: url host must not be empty: host:port,host:port/service")
    if number and not (is_digits(number) and 0 < int(number[:9]) <= 65535):
        raise ValueError(f"RedisStore: url port must be a whole number from 1 to 65535, got {number[:40]!r}")
    return host, int(number or usual)


def _database(parts: SplitResult, is_sentinel: bool) -> int:
    """Return the database number at the end of the path; 0 without one, and for a socket file."""
    if parts.scheme == "unix":
        return 0
    path = unquote(parts.path).strip("/")
    text = path.partition("/")[2] if is_sentinel else path
    if text and not (is_digits(text) and len(text) < 10):
        # In an address that was mistyped, a password may have come to stand here.
        got = f", got {text!r}" if text.removeprefix("-").isalnum() and len(text) <= 40 else ""
        raise ValueError(f"RedisStore: url database must be a whole number >= 0{got}")
    return int(text or 0)


def _options(parts: SplitResult, is_cluster: bool) -> dict[str, Any]:
    """Return the options of the query, as redis-py reads them; each is tried, and none connects."""
    options: dict[str, Any] = {}
    parse: Any = redis.connection.parse_url
    for name, value in parse_qsl(parts.query):
        try:
            read = parse(f"redis://h?{urlencode({name: value})}")[name]
        except ValueError:
            raise ValueError(
                f"RedisStore: url option {name[:40]!r} must be a value of its kind, got {value[:40]!r}"
            ) from None
        options[name] = read
        try:
            # A pool takes some of them for itself; a cluster's client takes more.
            if not is_cluster:
                redis.ConnectionPool(redis.SSLConnection, **{name: read}).make_connection()
        except (TypeError, ValueError, redis.RedisError):
            raise ValueError(
                f"RedisStore: url option {name[:40]!r} must be one that redis-py takes"
            ) from None
    return options


def _like(client: Any, settings: dict[str, Any]) -> Any:
    """Return a client for the address of ``client``, with our timeout and without retries."""
    if isinstance(client, redis.cluster.RedisCluster):
        nodes = client.nodes_manager
        theirs = {key: value for key, value in nodes.connection_kwargs.items() if key not in ("host", "port")}
        ours = {key: value for key, value in settings.items() if not key.startswith("retry_on")}
        node: Any = redis.cluster.ClusterNode
        starts = [node(start.host, start.port) for start in nodes.startup_nodes.values()]
        return redis.cluster.RedisCluster(startup_nodes=starts, **{**theirs, **ours})
    pool: Any = client.connection_pool
    kwargs = {**pool.connection_kwargs, **settings}
    if isinstance(pool, redis.sentinel.SentinelConnectionPool):
        kwargs.pop("connection_pool", None)
        return pool.sentinel_manager.master_for(pool.service_name, **kwargs)
    return redis.Redis(connection_pool=type(pool)(connection_class=pool.connection_class, **kwargs))
