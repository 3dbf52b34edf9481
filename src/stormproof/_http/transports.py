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


#: Methods that a client of the other kind may call first.
_SYNC_NAMES = ("handle_request", "__enter__", "close")
_ASYNC_NAMES = ("handle_async_request", "__aenter__", "aclose")


def wrong_client(
    transport: object, name: str, other_names: tuple[str, ...], client: str, right: str
) -> AttributeError:
    """Return the error for an attribute that ``transport`` lacks; the other client uses ``other_names``."""
    kind = type(transport).__name__
    if name in other_names:
        return AttributeError(f"{kind}: client must not be {client}, which takes {right}(policy)", name=name)
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=transport)


class Wrapping:
    """A transport around another one."""

    _library: Library
    #: The transport underneath, of the library's sync or async kind.
    _inner: Any

    def _wrap(self, policy: Policy, transport: object, options: dict[str, Any], is_async: bool) -> None:
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

    def __init__(self, policy: Policy = _MISSING, transport: object = None, **options: Any) -> None:
        self._wrap(policy, transport, options, False)

    def __getattr__(self, name: str) -> Any:
        raise wrong_client(self, name, _ASYNC_NAMES, "AsyncClient", "AsyncTransport")

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

    def __init__(self, policy: Policy = _MISSING, transport: object = None, **options: Any) -> None:
        self._wrap(policy, transport, options, True)

    def __getattr__(self, name: str) -> Any:
        raise wrong_client(self, name, _SYNC_NAMES, "Client", "Transport")

    async def handle_async_request(self, request: Any) -> Any:
        return await self._client.send_async(request, request.extensions.get("stormproof"))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._inner.__aexit__(*exc)
