"""A pytest plugin that puts a policy into every client that the tests of a library make.

``STORMPROOF_MOUNT`` is ``LIBRARY:POLICY``; without it the plugin does nothing. Every client has a fresh
policy, without a budget: an empty one would hide faults.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp

POLICIES: dict[str, Callable[[], sp.Policy]] = {
    "retry": lambda: sp.Policy(
        sp.Deadline(60), sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None), sp.Timeout(30)
    ),
    "timeout": lambda: sp.Policy(sp.Timeout(30)),
    "nothing": lambda: sp.Policy(sp.Retry(attempts=1)),
}

#: The headers that we add inside a deadline are in every test that lists all headers: they are off.
SILENT: dict[str, Any] = {"timeout_header": None, "attempt_header": None}


def mount_httpx(policy: Callable[[], sp.Policy]) -> None:
    """Wrap the transport of each request just before it is used, so that tests see their own."""
    import httpx

    import stormproof.httpx

    wrapped: Any = weakref.WeakKeyDictionary()

    def lookup(client: Any, kind: Any) -> Any:
        def transport_for(url: Any) -> Any:
            own = type(client)._transport_for_url(client, url)
            if own not in wrapped:
                wrapped[own] = kind(policy(), own, **SILENT)
            return wrapped[own]

        return transport_for

    send, send_async = httpx.Client._send_single_request, httpx.AsyncClient._send_single_request

    def mounted(self: Any, request: Any) -> Any:
        self.__dict__["_transport_for_url"] = lookup(self, stormproof.httpx.Transport)
        try:
            return send(self, request)
        finally:
            self.__dict__.pop("_transport_for_url", None)

    async def mounted_async(self: Any, request: Any) -> Any:
        # The transport is looked up before the first await.
        self.__dict__["_transport_for_url"] = lookup(self, stormproof.httpx.AsyncTransport)
        try:
            return await send_async(self, request)
        finally:
            self.__dict__.pop("_transport_for_url", None)

    httpx.Client._send_single_request = mounted  # type: ignore[method-assign]
    httpx.AsyncClient._send_single_request = mounted_async  # type: ignore[method-assign]


def mount_requests(policy: Callable[[], sp.Policy]) -> None:
    """Mount our adapter in every session, in place of the one that a session mounts by itself."""
    import requests.sessions

    import stormproof.requests

    class HTTPAdapter(stormproof.requests.Adapter):
        def __init__(self) -> None:
            super().__init__(policy(), **SILENT)

    # Sessions are pickled with their adapters, by name.
    HTTPAdapter.__qualname__ = "HTTPAdapter"
    globals()["HTTPAdapter"] = HTTPAdapter
    requests.sessions.HTTPAdapter = HTTPAdapter  # type: ignore[misc]


def mount_aiohttp(policy: Callable[[], sp.Policy]) -> None:
    """Put our middleware behind those of every session and request.

    Short responses are not read within the attempt (``buffer=0``): several of its tests hold a body back
    until the response is there, or expect the error of a broken body where the body is read.
    """
    import aiohttp

    import stormproof.aiohttp

    begin, request = aiohttp.ClientSession.__init__, aiohttp.ClientSession._request

    def mounted(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self._middlewares = (*self._middlewares, stormproof.aiohttp.middleware(policy(), buffer=0, **SILENT))

    async def requested(self: Any, *args: Any, **options: Any) -> Any:
        if options.get("middlewares") is not None:
            ours = stormproof.aiohttp.middleware(policy(), buffer=0, **SILENT)
            options["middlewares"] = (*options["middlewares"], ours)
        return await request(self, *args, **options)

    aiohttp.ClientSession.__init__ = mounted  # type: ignore[method-assign]
    aiohttp.ClientSession._request = requested  # type: ignore[method-assign]


def mount_urllib3(policy: Callable[[], sp.Policy]) -> None:
    """Make ``urllib3.PoolManager`` and ``urllib3.ProxyManager`` ours."""
    import urllib3
    import urllib3.poolmanager

    import stormproof.urllib3

    class PoolManager(stormproof.urllib3.PoolManager):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(policy(), *args, **SILENT, **options)

    class ProxyManager(stormproof.urllib3.ProxyManager):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(policy(), *args, **SILENT, **options)

    for module in (urllib3, urllib3.poolmanager):
        module.PoolManager = PoolManager  # type: ignore[attr-defined]
        module.ProxyManager = ProxyManager  # type: ignore[attr-defined]


MOUNTS = {
    "httpx": mount_httpx,
    "requests": mount_requests,
    "aiohttp": mount_aiohttp,
    "urllib3": mount_urllib3,
}


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main() -> Any:
    """End the process with the tests: threads that they leave behind would keep it."""
    status = yield
    sys.stdout.flush()
    os._exit(status)


_given = os.environ.get("STORMPROOF_MOUNT", "")
if _given:
    _library, _, _policy = _given.partition(":")
    MOUNTS[_library](POLICIES[_policy])
