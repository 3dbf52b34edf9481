"""Every HTTP client behind one small interface, so that the contract is written once.

`Client.request` makes one request the way the library's users do, and gives an `Answer`. With
``policy=None`` the library is used bare: that is how the server itself is tested.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx
import httpx2
import requests
import urllib3
from tests.support.http.server import Server

import stormproof as sp
import stormproof.aiohttp
import stormproof.httpx
import stormproof.httpx2
import stormproof.requests
import stormproof.urllib3


class OneShot:
    """A request body that can be read once: each client's own kind of stream."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    def sync(self) -> Iterator[bytes]:
        yield from self.chunks

    async def aio(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


class Form(dict[str, tuple[str, bytes]]):
    """A request body of files by field: each a name and its content."""

    def opened(self) -> dict[str, tuple[str, io.BytesIO, str]]:
        return {field: (name, io.BytesIO(data), "text/plain") for field, (name, data) in self.items()}


class StatusError(Exception):
    """The error that a user of urllib3, which has no ``raise_for_status``, would raise."""

    def __init__(self, response: Any) -> None:
        super().__init__(f"status {response.status}")
        self.response = response


@dataclass
class Answer:
    """An answer: read whole, unless it was asked for as a stream."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    #: The library's own response object.
    native: Any
    #: Raises the library's error for a status that is one.
    raise_for_status: Callable[[], None]
    #: For a stream: reads what is left of it, and closes it.
    rest: Callable[[], Awaitable[bytes]]


@dataclass
class Call:
    """A request to be made. ``timeout`` is the client's own, per connect and per read."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    stream: bool = False
    timeout: float = 5.0
    redirects: bool = False
    #: This request's own Stormproof options.
    override: dict[str, Any] | None = None


class Client:
    """One library, made ready for one test. ``lost``, ``refused`` and ``slow`` are its own errors.

    ``slow`` is a timeout in any phase: on a busy machine a short one may end before the request is sent.
    """

    is_async = False
    loop: str | None = None
    refused: tuple[type[Exception], ...] = ()
    lost: tuple[type[Exception], ...] = ()
    slow: tuple[type[Exception], ...] = ()
    #: What all its errors are.
    family: tuple[type[Exception], ...] = ()
    #: aiohttp: a request's own options are those of a middleware of its own.
    overrides_by_middleware = False
    #: httpx's async client takes no plain files.
    takes_files = True
    #: Makes a body that is made anew for every attempt.
    body: Any = None
    #: urllib3 closes the connections of a pool when the pool is collected; an error may hold it.
    closed_by_collector = False
    #: URL of the proxy that all requests go through.
    proxy: str | None = None
    #: Speak HTTP/2 with prior knowledge.
    http2 = False
    #: Receives what the library's own hooks see; ``None`` sets no hooks.
    hooks: list[Any] | None = None
    #: The library's own way to authenticate: "basic" or "digest".
    auth: str | None = None

    def __init__(self, server: Server, policy: sp.Policy | None, connections: int, options: Any) -> None:
        self.server = server
        self.open(policy, connections, options)

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        raise NotImplementedError

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        """One request; ``path`` may be a whole URL, the options are those of `Call`."""
        url = path if "://" in path else self.server.url(path)
        return await self.send(Call(method, url, **options))

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Any = b"data", **options: Any) -> Answer:
        return await self.request("POST", path, body=body, **options)

    async def send(self, call: Call) -> Answer:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def _httpx_errors(module: Any) -> dict[str, tuple[type[Exception], ...]]:
    return {
        "refused": (module.ConnectError,),
        "lost": (module.ReadError, module.RemoteProtocolError),
        "slow": (module.TimeoutException,),
        "family": (module.HTTPError,),
    }


def _extensions(client: Any, call: Call) -> dict[str, Any]:
    limits = {"timeout": client.module.Timeout(call.timeout).as_dict()}
    return limits if call.override is None else {**limits, "stormproof": call.override}


#: Credentials of the clients that authenticate.
USER, PASSWORD = "ann", "secret"


def _httpx_auth(client: Any) -> Any:
    digest = client.auth == "digest"
    return client.module.DigestAuth(USER, PASSWORD) if digest else (USER, PASSWORD) if client.auth else None


def _httpx_request(client: Any, call: Call, content: Any) -> Any:
    own = {"files": content.opened()} if isinstance(content, Form) else {"content": content}
    extensions = _extensions(client, call)
    return client.client.build_request(
        call.method, call.url, headers=call.headers, extensions=extensions, **own
    )


def _protocol(client: Client) -> dict[str, Any]:
    return {"proxy": client.proxy, "http1": not client.http2, "http2": client.http2}


class SyncHttpx(Client):
    module: Any = httpx
    ours: Any = stormproof.httpx

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        limits = self.module.Limits(max_connections=connections)
        inner = self.module.HTTPTransport(limits=limits, verify=False, **_protocol(self))
        transport = inner if policy is None else self.ours.Transport(policy, inner, **options)
        self.client = self.module.Client(transport=transport, trust_env=False, auth=_httpx_auth(self))
        if (log := self.hooks) is not None:
            self.client.event_hooks = {
                "request": [lambda request: log.append((request.method, str(request.url)))],
                "response": [lambda response: log.append((response.status_code, str(response.url)))],
            }

    async def send(self, call: Call) -> Answer:
        content = call.body.sync() if isinstance(call.body, OneShot) else call.body
        request = _httpx_request(self, call, content)
        response = self.client.send(request, stream=call.stream, follow_redirects=call.redirects)

        async def rest() -> bytes:
            try:
                return bytes(response.read())
            finally:
                response.close()

        read = b"" if call.stream else response.content
        return Answer(response.status_code, response.headers, read, response, _raising(response), rest)

    async def close(self) -> None:
        self.client.close()


class SyncHttpx2(SyncHttpx):
    module: Any = httpx2
    ours: Any = stormproof.httpx2


class AsyncHttpx(Client):
    is_async = True
    takes_files = False
    loop = "asyncio"
    module: Any = httpx
    ours: Any = stormproof.httpx

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        limits = self.module.Limits(max_connections=connections)
        inner = self.module.AsyncHTTPTransport(limits=limits, verify=False, **_protocol(self))
        transport = inner if policy is None else self.ours.AsyncTransport(policy, inner, **options)
        self.client = self.module.AsyncClient(transport=transport, trust_env=False, auth=_httpx_auth(self))
        if (log := self.hooks) is not None:

            async def on_request(request: Any) -> None:
                log.append((request.method, str(request.url)))

            async def on_response(response: Any) -> None:
                # Reading in a hook is what users do there.
                log.append((response.status_code, await response.aread()))

            self.client.event_hooks = {"request": [on_request], "response": [on_response]}

    async def send(self, call: Call) -> Answer:
        content = call.body.aio() if isinstance(call.body, OneShot) else call.body
        request = _httpx_request(self, call, content)
        response = await self.client.send(request, stream=call.stream, follow_redirects=call.redirects)

        async def rest() -> bytes:
            try:
                return bytes(await response.aread())
            finally:
                await response.aclose()

        read = b"" if call.stream else response.content
        return Answer(response.status_code, response.headers, read, response, _raising(response), rest)

    async def close(self) -> None:
        await self.client.aclose()


class TrioHttpx(AsyncHttpx):
    loop = "trio"


class AsyncHttpx2(AsyncHttpx):
    module: Any = httpx2
    ours: Any = stormproof.httpx2


class Requests(Client):
    closed_by_collector = True

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        self.client = requests.Session()
        self.client.trust_env = False
        if self.auth is not None:
            digest = self.auth == "digest"
            self.client.auth = requests.auth.HTTPDigestAuth(USER, PASSWORD) if digest else (USER, PASSWORD)
        pool = {"pool_maxsize": connections, "pool_block": True}
        if policy is None:
            adapter = requests.adapters.HTTPAdapter(**pool)
        else:
            adapter = stormproof.requests.Adapter(policy, **options, **pool)
        self.client.mount("http://", adapter)
        self.client.mount("https://", adapter)
        if self.proxy is not None:
            self.client.proxies = {"http": self.proxy, "https": self.proxy}
        if (log := self.hooks) is not None:
            self.client.hooks["response"].append(
                lambda response, **options: log.append(
                    (response.status_code, response.content, sorted(options))
                )
            )

    async def send(self, call: Call) -> Answer:
        data = call.body.sync() if isinstance(call.body, OneShot) else call.body
        own: dict[str, Any] = {"files": data.opened()} if isinstance(data, Form) else {"data": data}
        prepared = self.client.prepare_request(
            requests.Request(call.method, call.url, headers=call.headers, **own)
        )
        with stormproof.requests.override(**(call.override or {})):
            response = self.client.send(
                prepared, stream=call.stream, timeout=call.timeout, allow_redirects=call.redirects
            )

        async def rest() -> bytes:
            try:
                return bytes(response.content)
            finally:
                response.close()

        read = b"" if call.stream else response.content
        return Answer(response.status_code, response.headers, read, response, _raising(response), rest)

    async def close(self) -> None:
        self.client.close()


class Urllib3(Client):
    closed_by_collector = True

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        pool: dict[str, Any] = {"maxsize": connections, "block": True}
        proxy = {} if self.proxy is None else {"proxy_url": self.proxy}
        module: Any = urllib3 if policy is None else stormproof.urllib3
        manager = module.PoolManager if self.proxy is None else module.ProxyManager
        if policy is None:
            self.client: Any = manager(**proxy, **pool, retries=False)
        else:
            self.client = manager(policy, **proxy, **options, **pool)

    async def send(self, call: Call) -> Answer:
        data = call.body.sync() if isinstance(call.body, OneShot) else call.body
        own = {} if call.override is None else {"stormproof": call.override}
        if isinstance(data, Form):
            fields = {field: (*file, "text/plain") for field, file in data.items()}
            data, content_type = urllib3.encode_multipart_formdata(fields)
            call.headers["Content-Type"] = content_type
        response = self.client.request(
            call.method,
            call.url,
            headers=call.headers,
            body=data,
            preload_content=not call.stream,
            timeout=call.timeout,
            redirect=call.redirects,
            **own,
        )

        async def rest() -> bytes:
            try:
                return bytes(response.read())
            finally:
                response.release_conn()

        def raise_for_status() -> None:
            if response.status >= 400:
                raise StatusError(response)

        read = b"" if call.stream else response.data
        return Answer(response.status, response.headers, read, response, raise_for_status, rest)

    async def close(self) -> None:
        self.client.clear()


def _traced(log: list[Any]) -> aiohttp.TraceConfig:
    """Every signal of aiohttp's tracing, in the order in which they come."""
    config = aiohttp.TraceConfig()
    for name in dir(config):
        if name.startswith("on_"):

            async def receive(session: Any, context: Any, params: Any, name: str = name) -> None:
                log.append((name, getattr(params, "chunk", None), getattr(params, "method", None)))

            getattr(config, name).append(receive)
    return config


class Aiohttp(Client):
    is_async = True
    overrides_by_middleware = True
    loop = "asyncio"

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        own = () if policy is None else (stormproof.aiohttp.middleware(policy, **options),)
        digest = (aiohttp.DigestAuthMiddleware(USER, PASSWORD),) if self.auth == "digest" else ()
        self.client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            middlewares=(*digest, *own),
            headers={"Authorization": aiohttp.encode_basic_auth(USER, PASSWORD)}
            if self.auth == "basic"
            else {},
            proxy=self.proxy,
            trace_configs=[] if self.hooks is None else [_traced(self.hooks)],
        )

    async def send(self, call: Call) -> Answer:
        data = call.body.aio() if isinstance(call.body, OneShot) else call.body
        if isinstance(data, Form):
            form = aiohttp.FormData()
            for field_name, (name, file, kind) in data.opened().items():
                form.add_field(field_name, file, filename=name, content_type=kind)
            data = form
        limit = aiohttp.ClientTimeout(sock_connect=call.timeout, sock_read=call.timeout)
        own = {}
        if call.override is not None:
            import stormproof.aiohttp

            own = {"middlewares": [stormproof.aiohttp.middleware(**call.override)]}
        response = await self.client.request(
            call.method,
            call.url,
            headers=call.headers,
            data=data,
            timeout=limit,
            allow_redirects=call.redirects,
            **own,
        )

        async def rest() -> bytes:
            try:
                return await response.read()
            finally:
                response.release()

        read = b"" if call.stream else await rest()
        return Answer(response.status, response.headers, read, response, _raising(response), rest)

    async def close(self) -> None:
        await self.client.close()


def _raising(response: Any) -> Callable[[], None]:
    def raise_for_status() -> None:
        response.raise_for_status()

    return raise_for_status


for _kind in (SyncHttpx, SyncHttpx2, AsyncHttpx, AsyncHttpx2):
    for _name, _errors in _httpx_errors(_kind.module).items():
        setattr(_kind, _name, _errors)
Requests.refused = Requests.lost = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)
Requests.family = (requests.RequestException,)
Requests.slow = (requests.Timeout,)
Urllib3.refused = (urllib3.exceptions.NewConnectionError,)
Urllib3.lost = (urllib3.exceptions.ProtocolError,)
Urllib3.family = (urllib3.exceptions.HTTPError,)
Urllib3.slow = (urllib3.exceptions.TimeoutError,)
Aiohttp.refused = (aiohttp.ClientConnectorError,)
Aiohttp.lost = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)
Aiohttp.family = (aiohttp.ClientError,)
Aiohttp.slow = (aiohttp.ServerTimeoutError,)

for _kind in (SyncHttpx, SyncHttpx2, Requests, Urllib3):
    _kind.body = stormproof.requests.Body
for _kind in (AsyncHttpx, AsyncHttpx2, Aiohttp):
    _kind.body = stormproof.aiohttp.AsyncBody

CLIENTS: dict[str, type[Client]] = {
    "httpx": SyncHttpx,
    "httpx-asyncio": AsyncHttpx,
    "httpx-trio": TrioHttpx,
    "httpx2": SyncHttpx2,
    "requests": Requests,
    "urllib3": Urllib3,
    "aiohttp": Aiohttp,
}
