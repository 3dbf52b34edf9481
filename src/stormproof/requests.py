"""requests under a policy: ``session.mount("https://", stormproof.requests.Adapter(policy))``.

What a request goes through is in `stormproof._http`; here it meets its library.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar

from ._primitives.extras import extra

with extra("requests"):
    import requests
    from requests.adapters import HTTPAdapter
    from requests.structures import CaseInsensitiveDict
    from urllib3.exceptions import EmptyPoolError
    from urllib3.util.timeout import Timeout

from ._http.body import Body
from ._http.bounded_sockets import bound_manager
from ._http.client import Client
from ._http.draft import Draft
from ._http.final_answer import NotRetried
from ._http.options import ClientOptions
from ._http.urllib3_streams import Urllib3Port, answer, drain, hand_over, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ._policy.policy import Policy

__all__ = ["Adapter", "Body", "ClientOptions", "Draft", "NotRetried", "override"]

_overrides: ContextVar[dict[str, Any] | None] = ContextVar("stormproof.requests.override", default=None)


@contextmanager
def override(**overrides: Any) -> Iterator[None]:
    """Options of the requests sent inside: ``policy``, ``idempotency_key``, ``retry=False``.

    requests has no other way to give an option to one request:

        with stormproof.requests.override(retry=False):
            session.get(url)
    """
    before = _overrides.set(overrides)
    try:
        yield
    finally:
        _overrides.reset(before)


class _RequestsCall:
    """One request with the arguments that the session sends it with; ``send`` makes one attempt."""

    __slots__ = ("body", "options", "request", "send")

    def __init__(self, send: Any, request: Any, body: Any, options: dict[str, Any]) -> None:
        self.send = send
        self.request = request
        self.body = body
        self.options = options

    @property
    def method(self) -> str:
        return str(self.request.method)

    @property
    def headers(self) -> Any:
        return self.request.headers


class _RequestsPort(Urllib3Port):
    """See `_http.port.Port`."""

    name = "requests"

    # Requests.

    def native(self, call: _RequestsCall) -> Any:
        return call.request

    def url(self, call: _RequestsCall) -> str:
        return str(call.request.url)

    def keep_header(self, call: _RequestsCall, name: str, value: str) -> None:
        call.request.headers[name] = value

    def prepare(
        self, call: _RequestsCall, draft: Draft | None, extra: dict[str, str], limit_s: float | None
    ) -> _RequestsCall:
        request, options = call.request.copy(), call.options
        if draft is not None:
            request.url = draft.url
            request.headers = CaseInsensitiveDict()
            for name in draft.headers:
                request.headers[name] = draft.headers[name]
        request.headers.update(extra)
        own = _timeout(options["timeout"])
        # A tuple of another length is an error, which requests explains.
        if limit_s is not None and not isinstance(own, tuple):
            options = {**options, "timeout": within(own, limit_s)}
        return _RequestsCall(call.send, request, call.body, options)

    # Doing.

    def fetch(self, call: _RequestsCall, most: int) -> Any:
        request = call.request
        own, request.body = request.body, call.body
        try:
            response = call.send(request, **call.options)
        except EmptyPoolError as error:
            # requests waits for a connection without end, and so has no error of its own for this.
            raise requests.ConnectTimeout(error, request=request) from error
        finally:
            request.body = own
        response.stormproof_streams = call.options["stream"]
        # A redirect is followed even if its body is broken.
        status = response.status_code
        if most and (status < 300 or (status < 400 and not response.is_redirect)):
            self.buffer(response, most)
        return response

    def read(self, response: Any) -> object:
        return response.content

    def discard(self, response: Any, most: int) -> None:
        try:
            drain(response.raw, most)
            response.close()
        except Exception:
            # The response is discarded; objects of other adapters may raise anything here.
            pass

    # Responses.

    def status(self, response: Any) -> int:
        status: int = response.status_code
        return status

    def fields(self, response: Any) -> Iterable[tuple[str, str]]:
        # Those of the raw response: in requests' own, fields of the same name are one.
        pairs: Iterable[tuple[str, str]] = getattr(response.raw, "headers", response.headers).items()
        return pairs

    def is_response(self, value: Any) -> bool:
        return isinstance(value, requests.Response)

    def status_error(self, call: _RequestsCall, response: Any) -> Exception:
        return requests.HTTPError(f"{response.status_code} {response.reason}", response=response)

    def timeout_error(self, call: _RequestsCall, message: str) -> Exception:
        return requests.ReadTimeout(message, request=call.request)


def _timeout(given: Any) -> Any:
    """The timeout of a request, as urllib3 has it."""
    if not isinstance(given, tuple) or len(given) != 2:
        return given
    connect, read = given
    return Timeout(connect=connect, read=read)


class Adapter(HTTPAdapter):
    """Sends the requests of a session under ``policy``.

    The keywords are those of ``HTTPAdapter``, without ``max_retries``, and those of `ClientOptions`.
    With ``stream=True`` the answer is committed at its headers, however short it is.
    """

    #: Attributes in a pickle.
    __attrs__ = [*HTTPAdapter.__attrs__, "policy", "options"]  # noqa: RUF012 - as the base has it

    def __init__(self, policy: Policy, **options: Any) -> None:
        if "max_retries" in options:
            raise TypeError("Adapter: max_retries must not be given: the policy says how often to retry")
        self._join(policy, ClientOptions.taken_from(options))
        super().__init__(**options)

    def _join(self, policy: Policy, options: ClientOptions) -> None:
        self._client = Client(policy, _RequestsPort(), options)
        self.policy = policy
        self.options = options

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        self._join(self.policy, self.options)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        bound_manager(self.poolmanager)

    def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
        return bound_manager(super().proxy_manager_for(proxy, **options))

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send as ``HTTPAdapter.send`` does, under the policy."""
        options = {"stream": stream, "timeout": timeout, "verify": verify, "cert": cert, "proxies": proxies}
        call = _RequestsCall(super().send, request, request.body, options)
        # The session would read its body next, and meet the error of a broken one.
        response: requests.Response = answer(self._client.send(call, _overrides.get()))
        if not getattr(response, "stormproof_whole", False):
            hand_over(response.raw, _timeout(timeout))
        return response
