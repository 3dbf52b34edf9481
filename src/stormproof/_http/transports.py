"""The transports for httpx and for what has httpx's API under another name.

`Threads` and `Tasks` are the two transports without their library; `stormproof.httpx` and
`stormproof.httpx2` give them one.
"""

from __future__ import annotations

from .bounded_sockets import bound_transport
from .client import Client
from .httpx_port import TaskPort, ThreadPort
from .options import ClientOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from .._policy.policy import Policy
    from .httpx_port import Library


#: In place of a policy that was not given: the error for that is ours.
_MISSING: Policy = object()  # type: ignore[assignment]


class Wrapping:
    """A transport around another one."""

    _library: Library
    #: The transport underneath, of the library's sync or async kind.
    _inner: Any
    _is_async: bool
    #: Methods that a client of the other kind may call first, that client, and the transport that it takes.
    _mistaken: tuple[tuple[str, ...], str, str]

    def __init__(self, policy: Policy = _MISSING, transport: object = None, **options: Any) -> None:
        is_async = self._is_async
        if policy is _MISSING:
            raise TypeError(f"{type(self).__name__}: policy must be a Policy, got none")
        native = self._library.AsyncHTTPTransport if is_async else self._library.HTTPTransport
        if foreign := sorted(options.keys() - set(ClientOptions.field_names())):
            given = ", ".join(f"{name}={options[name]!r}" for name in foreign)
            theirs = f"{self._library.__name__}.{native.__name__}({given})"
            raise TypeError(
                f"{type(self).__name__}: options must be those of ClientOptions, got {given}; "
                f"did you mean transport={theirs}?"
            )
        transport = native() if transport is None else transport
        unwrapped = self._library.AsyncBaseTransport if is_async else self._library.BaseTransport
        if not isinstance(transport, unwrapped):
            raise TypeError(
                f"{type(self).__name__}: transport must be an {self._library.__name__}.{unwrapped.__name__} "
                f"or None, got {transport!r}"
            )
        self._inner = transport
        if not is_async:
            bound_transport(transport)
        port = (
            TaskPort(self._library, transport, self._inner.handle_async_request)
            if is_async
            else ThreadPort(self._library, transport, self._inner.handle_request)
        )
        self._client = Client(policy, port, ClientOptions(**options), is_async)

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        names, client, right = self._mistaken
        if name in names:
            message = f"{kind}: client must not be {client}, which takes {right}(policy)"
            raise AttributeError(message, name=name)
        raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def policy(self) -> Policy:
        """The policy that requests go through unless they bring their own."""
        return self._client.policy

    @property
    def options(self) -> ClientOptions:
        return self._client.options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.policy!r}, {self._inner!r})"


class Threads(Wrapping):
    """The sync transport of a library that has httpx's API."""

    _is_async = False
    _mistaken = (("handle_async_request", "__aenter__", "aclose"), "AsyncClient", "AsyncTransport")

    def handle_request(self, request: Any) -> Any:
        return self._client.send(request, request.extensions.get("stormproof"))

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._inner.__exit__(*exc)


class Tasks(Wrapping):
    """The async transport of a library that has httpx's API."""

    _is_async = True
    _mistaken = (("handle_request", "__enter__", "close"), "Client", "Transport")

    async def handle_async_request(self, request: Any) -> Any:
        return await self._client.send_async(request, request.extensions.get("stormproof"))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._inner.__aexit__(*exc)
