"""Sockets that look, at every read and write, at what is left of the ambient deadline.

A socket's own timeout begins anew with each read: a server that sends a byte at a time would keep a thread
for as long as it likes. Sockets and connections stay what they are; their class becomes a subclass.
"""

from __future__ import annotations

import http.client
import socket

from .._context.deadlines import ambient
from .._runtime.maps import Recent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    from urllib3 import PoolManager

    T = TypeVar("T")
    Transfer = Callable[..., T]
    Manager = TypeVar("Manager", bound=PoolManager)

    class NetworkStream(Protocol):
        """A network stream of httpcore's."""

        def get_extra_info(self, info: str) -> object: ...

    class NetworkBackend(Protocol):
        """A network backend of httpcore's."""

        def connect_tcp(self, *args: object, **options: object) -> NetworkStream: ...
        def connect_unix_socket(self, *args: object, **options: object) -> NetworkStream: ...


#: A phase's timeout that is longer than the time left by no more was taken from the same deadline just now.
_SLACK_S = 0.001
#: The subclasses, one per mixin and class of a library.
_kinds = Recent(64)


def _derive(mixin: type, kind: type) -> type:
    """Return the subclass of ``kind`` with what ``mixin`` overrides; ``kind`` itself if it is one."""
    if issubclass(kind, mixin):
        return kind
    derived: type | None = _kinds.get((mixin, kind))
    if derived is None:
        names = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
        derived = type(kind.__name__, (mixin, kind), names)
        _kinds.put((mixin, kind), derived)
    return derived


def _remaining() -> float | None:
    """Seconds left of the ambient deadline; None without one, or where policies are off."""
    scope = ambient()
    return None if scope is None or scope.off else scope.remaining()


def _within(sock: socket.socket, transfer: Transfer[T], args: Any, options: Any) -> T:
    """Read or write with no more time than is left of the ambient deadline."""
    left = _remaining()
    if left is None:
        return transfer(sock, *args, **options)
    if left <= 0.0:
        raise TimeoutError("timed out")
    own = sock.gettimeout()
    if own is not None and own <= left + _SLACK_S:
        return transfer(sock, *args, **options)
    sock.settimeout(left)
    moved = transfer(sock, *args, **options)
    # The next one may be outside the deadline.
    sock.settimeout(own)
    return moved


def _bounding(transfer: Transfer[T]) -> Transfer[T]:
    """Return ``transfer``, a method of a socket class, that looks at the ambient deadline first."""

    def bounding(sock: socket.socket, *args: Any, **options: Any) -> T:
        if ambient() is None:
            return transfer(sock, *args, **options)
        return _within(sock, transfer, args, options)

    return bounding


class _Bounded:
    """Marks the socket classes whose reads and writes are bounded."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for name in ("recv", "recv_into", "send", "sendall"):
            setattr(cls, name, _bounding(getattr(cls, name)))


def bounded(sock: T) -> T:
    """Return ``sock``, bounded from now on if it is a socket of the standard library or derived from one."""
    if isinstance(sock, socket.socket):
        try:
            sock.__class__ = _derive(_Bounded, type(sock))
        except TypeError:
            # One with a layout of its own keeps its own timeout per read.
            pass
    return sock


# urllib3: pools make connections, connections make sockets.


class _BoundedConnection:
    sock: object

    def _new_conn(self) -> object:
        return bounded(super()._new_conn())  # type: ignore[misc]

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        bounded(self.sock)


class BoundedPool:
    """Mixin for a connection pool of urllib3's, whose wait for a free connection is bounded, too."""

    def _get_conn(self, timeout: float | None = None) -> object:
        left = None if ambient() is None else _remaining()
        if left is not None:
            timeout = max(0.0, left if timeout is None else min(timeout, left))
        connection: object = super()._get_conn(timeout)  # type: ignore[misc]
        return connection

    def _new_conn(self) -> object:
        connection: object = super()._new_conn()  # type: ignore[misc]
        # What a recorder or a mock puts in its place has no socket.
        if isinstance(connection, http.client.HTTPConnection):
            connection.__class__ = _derive(_BoundedConnection, type(connection))
        return connection


def bound_manager(manager: Manager) -> Manager:
    """Return ``manager``, a pool manager of urllib3's, whose pools bound their sockets from now on."""
    pools = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _derive(BoundedPool, kind) for scheme, kind in pools.items()}
    return manager


# httpcore: a backend makes streams around sockets, and other streams when they begin to speak TLS.


class _BoundedStream:
    def start_tls(self, *args: object, **options: object) -> object:
        return _bounded_stream(super().start_tls(*args, **options))  # type: ignore[misc]


def _bounded_stream(stream: NetworkStream) -> NetworkStream:
    sock = stream.get_extra_info("socket")
    if bounded(sock) is not None and hasattr(stream, "__dict__"):
        stream.__class__ = _derive(_BoundedStream, type(stream))
    return stream


class _BoundedBackend:
    def __init__(self, inner: NetworkBackend) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def connect_tcp(self, *args: object, **options: object) -> object:
        return _bounded_stream(self._inner.connect_tcp(*args, **options))

    def connect_unix_socket(self, *args: object, **options: object) -> object:
        return _bounded_stream(self._inner.connect_unix_socket(*args, **options))


def bound_transport(transport: object) -> None:
    """Bound the sockets that ``transport``, a sync one of httpx's, opens from now on."""
    pool = getattr(transport, "_pool", None)
    backend = getattr(pool, "_network_backend", None)
    if pool is not None and backend is not None and not isinstance(backend, _BoundedBackend):
        pool._network_backend = _BoundedBackend(backend)
