"""The parts that are httpx's own (and httpx2, the same API by another name) as a client.

The common ones are in tests/integration/http. Here the transport below ours is a script, so
that each response's fate can be seen.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import httpx
import httpx2
import pytest
import trio

import stormproof as sp
import stormproof.httpx
import stormproof.httpx2
from stormproof._classify.exhaustion import exhausted_by
from stormproof._http.attempt import judged, release

URL = "https://a.example/path?token=secret"


def policy(**options: Any) -> sp.Policy:
    given: dict[str, Any] = {"backoff": sp.Constant(0), "budget": None, **options}
    return sp.Policy(sp.Retry(**given), name="shop")


class Way:
    """A client, sync or async: ``send(script, policy, ...)`` makes one request through it."""

    def __init__(self, name: str, library: Any, ours: Any, loop: str | None) -> None:
        self.name, self.library, self.ours, self.loop = name, library, ours, loop
        #: How much later than the scope a phase may end: in a task the scope cuts the attempt off itself.
        self.grace = 0.0 if loop is None else 0.05

    def __repr__(self) -> str:
        return self.name

    def script(self, *steps: Any) -> Script:
        return Script(self, steps)

    def send(self, script: Script, under: sp.Policy, method: str = "GET", **given: Any) -> Any:
        """One request; the options of the transport are those that httpx does not know."""
        names = stormproof.httpx.ClientOptions.field_names()
        own = {key: given.pop(key) for key in list(given) if key in names}
        if self.loop is None:
            transport = self.ours.Transport(under, script.transport, **own)
            with self.library.Client(transport=transport) as client:
                return client.request(method, given.pop("url", URL), **given)

        async def main() -> Any:
            transport = self.ours.AsyncTransport(under, script.transport, **own)
            async with self.library.AsyncClient(transport=transport) as client:
                return await client.request(method, given.pop("url", URL), **given)

        return trio.run(main) if self.loop == "trio" else asyncio.run(main())


WAYS = [
    Way("httpx", httpx, stormproof.httpx, None),
    Way("httpx-asyncio", httpx, stormproof.httpx, "asyncio"),
    Way("httpx-trio", httpx, stormproof.httpx, "trio"),
    Way("httpx2", httpx2, stormproof.httpx2, None),
    Way("httpx2-asyncio", httpx2, stormproof.httpx2, "asyncio"),
]
each = pytest.mark.parametrize("way", WAYS, ids=repr)
each_sync = pytest.mark.parametrize("way", [way for way in WAYS if way.loop is None], ids=repr)
each_async = pytest.mark.parametrize("way", [way for way in WAYS if way.loop is not None], ids=repr)


class Reply:
    """A response of the script: what of it was read, and how often it was closed."""

    def __init__(
        self,
        status: int = 200,
        *chunks: bytes | BaseException,
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        self.status, self.chunks, self.headers = status, chunks, dict(headers or {})
        if length is not None:
            self.headers["Content-Length"] = str(length)
        self.read = 0
        self.closed = 0

    def _parts(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            self.read += len(chunk)
            yield chunk

    def native(self, library: Any) -> Any:
        reply = self

        class Stream(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc,name-defined]
            def __iter__(self) -> Iterator[bytes]:
                yield from reply._parts()

            async def __aiter__(self) -> AsyncIterator[bytes]:
                for part in reply._parts():
                    yield part

            def close(self) -> None:
                reply.closed += 1

            async def aclose(self) -> None:
                reply.closed += 1

        return library.Response(self.status, headers=self.headers, stream=Stream())


def whole(status: int, body: bytes = b"", **headers: str) -> Reply:
    return Reply(status, body, headers={k.replace("_", "-"): v for k, v in headers.items()}, length=len(body))


class Script:
    """The transport below: plays one step per request and keeps the requests and their bodies."""

    def __init__(self, way: Way, steps: tuple[Any, ...]) -> None:
        self.steps = list(steps)
        self.requests: list[Any] = []
        self.bodies: list[bytes] = []
        self.timeouts: list[dict[str, Any]] = []
        library, script = way.library, self

        def step(request: Any, body: bytes) -> Any:
            script.requests.append(request)
            script.bodies.append(body)
            timeouts = request.extensions.get("timeout", {})
            script.timeouts.append({phase: timeouts.get(phase) for phase in ("connect", "read")})
            # A BaseException: no policy may mistake it for a failure of the server.
            assert script.steps, pytest.fail.Exception("a request beyond the end of the script")
            outcome = script.steps.pop(0)
            if callable(outcome):
                outcome = outcome()
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome.native(library)

        if way.loop is None:

            class Below(library.BaseTransport):  # type: ignore[misc,name-defined]
                def handle_request(self, request: Any) -> Any:
                    return step(request, b"".join(request.stream))

        else:

            class Below(library.AsyncBaseTransport):  # type: ignore[misc,name-defined,no-redef]
                async def handle_async_request(self, request: Any) -> Any:
                    return step(request, b"".join([chunk async for chunk in request.stream]))

        self.transport = Below()

    def sent(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


# The body of an answer.


@each
def test_short_answer_is_read_in_the_attempt_and_stays_readable(way: Way) -> None:
    reply = whole(200, b'{"a": 1}')
    response = way.send(way.script(reply), policy())
    assert response.json() == {"a": 1}
    assert response.is_closed and response.num_bytes_downloaded == 8
    # The client's own figure, which it takes when the body has been read.
    assert response.elapsed.total_seconds() > 0
    assert (reply.read, reply.closed) == (8, 1)


@each
def test_encoded_answer_is_decoded_once(way: Way) -> None:
    import gzip

    body = gzip.compress(b"plain")
    response = way.send(way.script(whole(200, body, content_encoding="gzip")), policy())
    assert response.content == b"plain"


@each_sync
def test_short_answer_can_still_be_streamed_raw(way: Way) -> None:
    transport = way.ours.Transport(policy(), way.script(whole(200, b"abc")).transport)
    with way.library.Client(transport=transport) as client, client.stream("GET", URL) as response:
        assert list(response.iter_raw()) == [b"abc"]


@each
def test_body_cut_short_is_retried_while_it_fits_the_buffer(way: Way) -> None:
    cut = Reply(200, b"ab", way.library.ReadError("cut"), length=4)
    script = way.script(cut, whole(200, b"abcd"))
    assert way.send(script, policy()).content == b"abcd"
    assert cut.closed == 1


@each
@pytest.mark.parametrize("length", [None, 5])
def test_longer_or_streamed_body_is_committed_at_its_headers(way: Way, length: int | None) -> None:
    cut = Reply(200, b"ab", way.library.ReadError("cut"), length=length)
    with pytest.raises(way.library.ReadError, match="cut"):
        way.send(way.script(cut), policy(), buffer=4)
    assert cut.closed == 1


@each
def test_buffer_0_reads_nothing_in_the_attempt(way: Way) -> None:
    cut = Reply(200, way.library.ReadError("cut"), length=1)
    with pytest.raises(way.library.ReadError):
        way.send(way.script(cut), policy(), buffer=0)


class Elsewhere:
    """The headers of a library that keeps them in another way."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def __getattr__(self, name: str) -> Any:
        if name == "_list":
            raise AttributeError(name)
        return getattr(self._headers, name)

    def __contains__(self, name: str) -> bool:
        return name in self._headers


@each
def test_length_is_found_however_the_library_keeps_its_headers(way: Way) -> None:
    class Other(Reply):
        def native(self, library: Any) -> Any:
            response = super().native(library)
            response.headers = Elsewhere(response.headers)
            return response

    cut = Other(200, b"ab", way.library.ReadError("cut"), length=4)
    script = way.script(cut, Other(200, b"abcd", length=4))
    assert way.send(script, policy()).content == b"abcd"
    streamed = Other(200, b"ab", way.library.ReadError("cut"))
    with pytest.raises(way.library.ReadError, match="cut"):
        way.send(way.script(streamed), policy())


# Discarded answers.


@each
def test_every_discarded_answer_is_closed_once(way: Way) -> None:
    replies = [whole(503, b"no"), Reply(503, b"no", b"no"), whole(200, b"yes")]
    assert way.send(way.script(*replies), policy()).content == b"yes"
    assert [reply.closed for reply in replies] == [1, 1, 1]


@each
def test_discarded_answer_is_drained_within_a_bound(way: Way) -> None:
    endless = Reply(503, *[b"x" * 100] * 50)
    unknown = Reply(503, b"x" * 100)
    announced = Reply(503, *[b"x" * 100] * 50, length=5000)
    script = way.script(endless, unknown, announced, whole(200))
    assert way.send(script, policy(), drain=250, buffer=10).status_code == 200
    # One chunk more than the bound shows that there is more.
    assert (endless.read, unknown.read, announced.read) == (300, 100, 300)
    assert [reply.closed for reply in (endless, unknown, announced)] == [1, 1, 1]


@each
def test_last_answer_can_be_read_whole_however_long_it_is(way: Way) -> None:
    last = Reply(503, b"a" * 100, b"b" * 100, b"c" * 100)
    response = way.send(way.script(Reply(503, b"first"), last), policy(attempts=2), drain=150)
    assert response.content == b"a" * 100 + b"b" * 100 + b"c" * 100
    assert last.closed >= 1


@each
def test_answer_that_on_result_refuses_is_closed(way: Way) -> None:
    streamed = Reply(202, b"x" * 10)
    seen = []

    def pending(response: Any) -> bool:
        seen.append(str(response.request.url.host))
        return bool(response.status_code == 202)

    script = way.script(streamed, whole(202), whole(200))
    assert way.send(script, policy(on_result=pending)).status_code == 200
    assert (streamed.closed, seen) == (1, ["a.example"] * 3)


@each
def test_answer_that_on_result_refuses_may_break_off(way: Way) -> None:
    broken = Reply(202, b"x", way.library.ReadError("cut"))
    script = way.script(broken, whole(200))
    # Two attempts: a broken stream does not make a third one.
    under = policy(attempts=2, on_result=lambda response: response.status_code == 202)
    assert way.send(script, under).status_code == 200
    assert (broken.read, broken.closed) == (1, 1)


class Stuck(Reply):
    """A reply that cannot be closed."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "closed" and value:
            raise OSError("no such connection")


@each
def test_error_closing_a_discarded_answer_is_ignored(way: Way) -> None:
    stuck = Stuck(202, b"x" * 10)
    under = policy(on_result=lambda response: response.status_code == 202)
    assert way.send(way.script(stuck, whole(200)), under, drain=0).status_code == 200
    assert (stuck.read, stuck.closed) == (0, 1)


@each
def test_last_response_cut_short_raises_the_read_error(way: Way) -> None:
    last = Reply(503, b"ab", way.library.ReadError("cut"))
    with pytest.raises(way.library.ReadError, match="cut"):
        way.send(way.script(last), policy(attempts=1))
    assert last.closed == 1


@each
def test_error_in_a_discarded_body_is_ignored(way: Way) -> None:
    broken = Reply(503, b"x", way.library.ReadError("cut"))
    assert way.send(way.script(broken, whole(200)), policy()).status_code == 200
    assert broken.closed == 1


# What is given back.


@each
def test_last_response_is_marked(way: Way) -> None:
    response = way.send(way.script(whole(503), whole(502, b"last")), policy(attempts=2))
    assert (response.status_code, response.content) == (502, b"last")
    mark = response.extensions["stormproof"]
    assert (mark.layer, mark.attempts, mark.reason) == ("shop", 2, "attempts used up")
    with pytest.raises(way.library.HTTPStatusError) as caught:
        response.raise_for_status()
    assert not sp.transient(caught.value).retry


@each
def test_response_that_was_not_retried_has_the_reason(way: Way) -> None:
    response = way.send(way.script(whole(503)), policy(), "POST", content=b"x")
    exchange = response.extensions["stormproof"]
    assert (exchange.attempts, exchange.reason) == (
        1,
        "not sent again: POST without an idempotency key may have been processed",
    )


@each
def test_success_is_not_marked(way: Way) -> None:
    assert "stormproof" not in way.send(way.script(whole(200)), policy()).extensions


@each
def test_last_transport_error_is_noted(way: Way) -> None:
    last = way.library.ReadTimeout("slow")
    with pytest.raises(way.library.ReadTimeout) as caught:
        way.send(way.script(way.library.ConnectError("no"), last), policy(attempts=2))
    assert caught.value is last
    assert "2 attempts" in last.__notes__[0] and "attempts used up" in last.__notes__[0]
    assert str(last.request.url).startswith("https://a.example/")


class Empty:
    """A budget that pays for nothing."""

    def started(self) -> None: ...
    def success(self, spent: float | None = None) -> None: ...
    def failure(self, timeout: bool = False) -> None: ...
    def withdraw(self, timeout: bool = False) -> float:
        return 0.0


@each
def test_empty_budget_gives_the_response_not_an_error(way: Way) -> None:
    response = way.send(way.script(whole(503, b"busy")), policy(budget=Empty()))
    assert (response.status_code, response.content) == (503, b"busy")
    reason = response.extensions["stormproof"].reason
    assert reason == "retry budget exhausted"
    why = sp.stopped(response)
    assert why is not None and (why.reason, why.attempts) == ("budget", 1)
    # An outer layer stops at the mark.
    with pytest.raises(way.library.HTTPStatusError) as caught:
        response.raise_for_status()
    assert not sp.transient(caught.value).retry


@each
def test_empty_budget_gives_the_transport_error_not_ours(way: Way) -> None:
    last = way.library.ConnectError("no")
    with pytest.raises(way.library.ConnectError) as caught:
        way.send(way.script(last), policy(budget=Empty()))
    assert caught.value is last and "retry budget exhausted" in last.__notes__[0]
    mark = exhausted_by(last)
    assert mark is not None and mark.reason == "retry budget exhausted"


@each
def test_wait_past_the_deadline_gives_the_response(way: Way) -> None:
    under = sp.Policy(sp.Deadline(5), sp.Retry(backoff=sp.Constant(20), budget=None))
    response = way.send(way.script(whole(503)), under)
    assert response.status_code == 503
    assert response.extensions["stormproof"].reason.startswith("DeadlineExceeded: ")


@each
def test_circuit_that_opens_in_between_gives_the_last_answer(way: Way) -> None:
    breaker = sp.Breaker(consecutive=1)
    under = sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=None), breaker)
    response = way.send(way.script(whole(503, b"why")), under)
    assert (response.status_code, response.content, breaker.state) == (503, b"why", "open")
    assert sp.stopped(response).reason == "circuit"  # type: ignore[union-attr]
    # Now there is no answer at all.
    with pytest.raises(sp.CircuitOpen):
        way.send(way.script(), under)


@each
def test_cancelled_scope_is_not_hidden_by_an_answer(way: Way) -> None:
    with pytest.raises(sp.Cancelled), sp.deadline(None) as scope:

        def then_cancel() -> Reply:
            scope.cancelled = True
            return whole(503)

        way.send(way.script(then_cancel), policy())


@each
def test_without_a_retry_a_failure_is_just_its_response(way: Way) -> None:
    breaker = sp.Breaker(consecutive=1)
    response = way.send(way.script(whole(500)), sp.Policy(breaker), "POST")
    assert (response.status_code, breaker.state) == (500, "open")
    assert "stormproof" not in response.extensions


@each
def test_disabled_transport_does_not_retry(way: Way) -> None:
    with sp.disabled():
        assert way.send(way.script(whole(503)), policy()).status_code == 503


# What the strategies see.


@each
@pytest.mark.parametrize(
    ("status", "failures"), [(200, 0), (301, 0), (404, 0), (401, 0), (429, 1), (501, 1), (503, 1)]
)
def test_status_decides_failures_of_the_breaker(way: Way, status: int, failures: int) -> None:
    breaker = sp.Breaker()
    way.send(way.script(whole(status)), sp.Policy(breaker), "POST")
    assert breaker.counts.failures == failures


@each
def test_on_sees_the_librarys_own_status_error(way: Way) -> None:
    seen: list[Any] = []

    def on(error: Exception) -> bool:
        seen.append(error)
        return True

    script = way.script(whole(503), way.library.ConnectError("no"), whole(200))
    assert way.send(script, policy(on=on)).status_code == 200
    assert [type(error) for error in seen] == [way.library.HTTPStatusError, way.library.ConnectError]
    assert seen[0].response.status_code == 503 and seen[0].request.method == "GET"


@each
def test_on_may_leave_statuses_alone(way: Way) -> None:
    under = policy(on=way.library.TransportError)
    assert way.send(way.script(whole(503)), under).status_code == 503
    assert way.send(way.script(way.library.ConnectError("no"), whole(200)), under).status_code == 200


@each
def test_fallback_answers_and_closes_the_response(way: Way) -> None:
    reply = Reply(503, b"x" * 10)
    under = sp.Policy(
        sp.Fallback(lambda error: way.library.Response(200, text=type(error).__name__)),
        sp.Retry(attempts=1, budget=None),
    )
    assert way.send(way.script(reply), under).text == "HTTPStatusError"
    assert reply.closed == 1


@each
def test_fallback_must_give_a_response(way: Way) -> None:
    with pytest.raises(TypeError, match="must give a response of the client's own, got a dict"):
        way.send(way.script(whole(503)), sp.Policy(sp.Fallback({})))


@each
def test_breaker_is_kept_per_host(way: Way) -> None:
    breakers = sp.keyed(sp.Breaker(consecutive=1), key=lambda request: request.url.host)
    under = sp.Policy(breakers)
    assert way.send(way.script(whole(500)), under).status_code == 500
    assert way.send(way.script(whole(200)), under, url="https://b.example/").status_code == 200
    with pytest.raises(sp.CircuitOpen):
        way.send(way.script(), under)


@each
def test_tables_of_the_client_go_before_the_policys(way: Way) -> None:
    script = way.script(whole(409), whole(503))
    response = way.send(script, policy(), "POST", statuses={409}, methods={"POST"})
    assert response.status_code == 503 and len(script.requests) == 2


@each
def test_tables_of_the_policys_classifier_count(way: Way) -> None:
    on = sp.transient.with_(statuses={409, *sp.transient.settings.statuses})
    script = way.script(whole(409), whole(200))
    assert way.send(script, policy(on=on)).status_code == 200


@each
def test_should_retry_header_of_the_last_answer_counts(way: Way) -> None:
    script = way.script(whole(409, x_should_retry="true"), whole(503, x_should_retry="false"))
    assert way.send(script, policy()).status_code == 503
    assert len(script.requests) == 2


@each
def test_events_of_an_unnamed_policy_name_the_client(way: Way) -> None:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        way.send(
            way.script(whole(503), whole(200)),
            policy().with_(name=None),
            url="https://user:pw@a.example/p?token=secret",
        )
    finally:
        stop()
    assert {event.operation for event in events} == {way.library.__name__}


# What is sent.


@each
def test_headers_are_the_same_on_every_attempt(way: Way) -> None:
    script = way.script(whole(503), way.library.ConnectError("no"), whole(200))
    way.send(
        script, policy(), headers=[("Authorization", "Bearer s"), (b"X-A", b"\xe9")], attempt_header=None
    )
    assert script.sent("authorization") == ["Bearer s"] * 3
    assert [request.headers.raw for request in script.requests] == [script.requests[0].headers.raw] * 3


@each
def test_attempt_header_is_sent_from_the_second_attempt_on(way: Way) -> None:
    script = way.script(whole(503), whole(503), whole(200))
    way.send(script, policy())
    assert script.sent("x-request-attempt") == [None, "2", "3"]


@each
def test_automatic_key_is_one_per_call(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    response = way.send(script, policy(), "POST", idempotency_key="auto")
    first, second = script.sent("idempotency-key")
    assert first == second == response.request.headers["idempotency-key"] and len(str(first)) == 36
    other = way.script(whole(200))
    way.send(other, policy(), "POST", idempotency_key="auto")
    assert other.sent("idempotency-key") != [first]


@each
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_safe_method_needs_no_key(way: Way, method: str) -> None:
    script = way.script(whole(200))
    way.send(script, policy(), method, idempotency_key="auto")
    assert script.sent("idempotency-key") == [None]


@each
def test_callers_key_is_kept(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    way.send(script, policy(), "POST", idempotency_key="auto", headers={"Idempotency-Key": "mine"})
    assert script.sent("idempotency-key") == ["mine", "mine"]


@each
def test_key_may_be_made_from_the_request(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    way.send(
        script,
        policy(),
        "PATCH",
        idempotency_key=lambda request: f"k-{request.url.path}",
        key_header="X-Idem",
    )
    assert script.sent("x-idem") == ["k-/path"] * 2


@each
def test_request_extensions_override_the_options(way: Way) -> None:
    def request(script: Script, **said: Any) -> Any:
        return way.send(script, policy(), "POST", extensions={"stormproof": said})

    script = way.script(whole(503), whole(200))
    assert request(script, idempotency_key="k-1").status_code == 200
    assert script.sent("idempotency-key") == ["k-1", "k-1"]
    response = request(way.script(whole(429)), retry=False)
    assert response.extensions["stormproof"].reason == "not sent again: the request says retry=False"
    shown = "NotRetried(attempts=1, reason='not sent again: the request says retry=False')"
    assert repr(response.extensions["stormproof"]) == shown
    response = request(way.script(whole(429)), policy=sp.Policy(sp.Retry(attempts=1), name="other"))
    assert response.extensions["stormproof"].layer == "other"
    with pytest.raises(TypeError, match="a request has no option 'attempts'"):
        request(way.script(), attempts=3)


class Counted:
    """A strategy that counts how often it is compiled."""

    def __init__(self) -> None:
        self.compiled = 0

    def sync(self, call: Any, env: Any, like: Any) -> Any:
        self.compiled += 1
        return call

    def aio(self, call: Any, env: Any, like: Any) -> Any:
        self.compiled += 1
        return call


@each_sync
def test_policy_that_requests_name_is_compiled_once(way: Way) -> None:
    own, other = Counted(), Counted()
    under, named = sp.Policy(own), sp.Policy(other)
    script = way.script(*[whole(200)] * 5)
    transport = way.ours.Transport(under, script.transport)
    with way.library.Client(transport=transport) as client:
        for policy in (under, named, named, under, named):
            client.get(URL, extensions={"stormproof": {"policy": policy}})
    assert (own.compiled, other.compiled) == (1, 1)


@each_sync
def test_override_leaves_nothing_behind(way: Way) -> None:
    script = way.script(whole(503), whole(503), whole(200))
    transport = way.ours.Transport(policy(), script.transport)
    with way.library.Client(transport=transport) as client:
        assert client.get(URL, extensions={"stormproof": {"retry": False}}).status_code == 503
        assert client.get(URL).status_code == 200


# Bodies.


@each_sync
def test_file_is_sent_again(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    way.send(script, policy(), "PUT", content=io.BytesIO(b"data"))
    assert script.bodies == [b"data", b"data"]


@each
def test_multipart_body_is_sent_again(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    way.send(script, policy(), "PUT", files={"f": ("n", io.BytesIO(b"data")), "g": ("m", b"more")})
    assert script.bodies[0] == script.bodies[1] and b"data" in script.bodies[1]


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False

    def seek(self, *place: int) -> int:
        raise io.UnsupportedOperation("seek")


@each
def test_multipart_body_of_a_pipe_is_sent_once(way: Way) -> None:
    script = way.script(whole(503))
    response = way.send(script, policy(), "PUT", files={"f": ("n", Unseekable(b"data"))})
    assert "cannot be sent again" in response.extensions["stormproof"].reason


@each
@pytest.mark.parametrize(
    ("file", "limit", "says"),
    [
        (io.BytesIO(b"data"), 4, " bytes are more than 4 (replay=)"),
        (io.BytesIO(b"data"), 0, " bytes are more than 0 (replay=)"),
        (Unseekable(b"data"), 0, "its body cannot be sent again: replay=0"),
    ],
)
def test_multipart_body_over_the_limit_is_sent_once(way: Way, file: Any, limit: int, says: str) -> None:
    script = way.script(whole(503))
    response = way.send(script, policy(), "PUT", files={"f": ("n", file)}, replay=limit)
    assert response.extensions["stormproof"].reason.endswith(says)


def _one_shot(way: Way) -> Any:
    def sync() -> Iterator[bytes]:
        yield b"once"

    async def aio() -> AsyncIterator[bytes]:
        yield b"once"

    return sync() if way.loop is None else aio()


@each
def test_stream_is_sent_once_and_the_response_has_the_reason(way: Way) -> None:
    script = way.script(whole(503))
    response = way.send(script, policy(), "PUT", content=_one_shot(way))
    assert script.bodies == [b"once"]
    assert "a stream is read only once" in response.extensions["stormproof"].reason


@each
def test_stream_not_yet_read_is_retried(way: Way) -> None:
    library = way.library
    tried: list[Any] = []
    script = way.script(whole(200))
    below = script.transport

    if way.loop is None:

        class Refusing(library.BaseTransport):  # type: ignore[misc,name-defined]
            def handle_request(self, request: Any) -> Any:
                tried.append(request)
                if len(tried) == 1:
                    raise library.ConnectError("refused")
                return below.handle_request(request)

    else:

        class Refusing(library.AsyncBaseTransport):  # type: ignore[misc,name-defined,no-redef]
            async def handle_async_request(self, request: Any) -> Any:
                tried.append(request)
                if len(tried) == 1:
                    raise library.ConnectError("refused")
                return await below.handle_async_request(request)

    script.transport = Refusing()
    assert way.send(script, policy(), "PUT", content=_one_shot(way)).status_code == 200
    assert script.bodies == [b"once"]


@each_sync
def test_consumed_stream_is_not_sent_again_with_a_reused_request(way: Way) -> None:
    script = way.script(whole(503))
    below, tried = script.transport, []

    class Refusing(way.library.BaseTransport):  # type: ignore[misc,name-defined]
        def handle_request(self, request: Any) -> Any:
            tried.append(request)
            if len(tried) != 2:
                raise way.library.ConnectError("refused")
            return below.handle_request(request)

    transport = way.ours.Transport(policy(attempts=2), Refusing())
    with way.library.Client(transport=transport) as client:
        request = client.build_request("PUT", URL, content=_one_shot(way))
        assert client.send(request).status_code == 503
        with pytest.raises(way.library.ConnectError) as caught:
            client.send(request)
    # The first time it was tried again, as it had not been read yet; the second time it was not.
    assert (len(tried), script.bodies) == (3, [b"once"])
    assert "a stream is read only once" in caught.value.__notes__[0]


@each
def test_closing_the_body_of_an_attempt_closes_the_callers_stream(way: Way) -> None:
    library, closed = way.library, []

    class Stream(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc,name-defined]
        def close(self) -> None:
            closed.append("sync")

        async def aclose(self) -> None:
            closed.append("async")

    class Closing(library.BaseTransport, library.AsyncBaseTransport):  # type: ignore[misc,name-defined]
        def handle_request(self, request: Any) -> Any:
            request.stream.close()
            return library.Response(200)

        async def handle_async_request(self, request: Any) -> Any:
            await request.stream.aclose()
            return library.Response(200)

    async def main() -> None:
        await way.ours.AsyncTransport(policy(), Closing()).handle_async_request(request)

    request = library.Request("PUT", URL, stream=Stream())
    if way.loop is None:
        way.ours.Transport(policy(), Closing()).handle_request(request)
    else:
        trio.run(main) if way.loop == "trio" else asyncio.run(main())
    assert closed == ["sync" if way.loop is None else "async"]


@each
def test_body_is_made_again_for_a_retry(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    kind = way.ours.Body if way.loop is None else way.ours.AsyncBody
    way.send(script, policy(), "PUT", content=kind(lambda: io.BytesIO(b"data")))
    assert script.bodies == [b"data", b"data"]


@each
def test_body_over_the_limit_is_sent_once(way: Way) -> None:
    script = way.script(whole(503))
    response = way.send(script, policy(), "PUT", content=b"12345", replay=4)
    assert response.extensions["stormproof"].reason.endswith("5 bytes are more than 4 (replay=)")


# Time.


@each
def test_timeouts_shrink_with_the_deadline(way: Way) -> None:
    clock = sp.testing.FakeClock()

    def slow() -> Reply:
        clock.advance(1)
        return whole(503)

    under = sp.Policy(sp.Deadline(4), sp.Retry(backoff=sp.Constant(0.5), budget=None), clock=clock)
    script = way.script(slow, slow, whole(200))
    asked = way.library.Timeout(3, connect=None)
    request_timeouts = asked.as_dict()
    way.send(script, under, timeout=asked)
    grace = way.grace
    assert script.timeouts == [
        {"connect": 4.0 + grace, "read": 3.0},
        {"connect": 2.5 + grace, "read": 2.5 + grace},
        {"connect": 1.0 + grace, "read": 1.0 + grace},
    ]
    assert script.sent("x-request-timeout-ms") == ["4000", "2500", "1000"]
    assert asked.as_dict() == request_timeouts


@each
def test_timeout_header_of_none_sends_no_time_left(way: Way) -> None:
    script = way.script(whole(503), whole(200))
    under = sp.Policy(sp.Deadline(4), sp.Retry(backoff=sp.Constant(0), budget=None))
    way.send(script, under, timeout_header=None, attempt_header="X-N")
    assert (script.sent("x-request-timeout-ms"), script.sent("x-n")) == ([None, None], [None, "2"])


@each
def test_request_without_a_deadline_is_sent_unchanged(way: Way) -> None:
    script = way.script(whole(200))
    response = way.send(script, policy())
    assert script.requests[0] is response.request
    assert script.sent("x-request-timeout-ms") == [None]


@each
def test_timeout_is_computed_when_its_phase_begins(way: Way) -> None:
    clock = sp.testing.FakeClock()
    seen: list[float] = []
    script = way.script(lambda: whole(200))
    library = way.library

    def look(request: Any) -> None:
        seen.append(request.extensions["timeout"].get("connect"))
        clock.advance(1)
        seen.append(request.extensions["timeout"].get("read"))
        clock.advance(1)
        seen.append(request.extensions["timeout"]["write"])
        clock.advance(10)
        seen.append(request.extensions["timeout"].get("read"))

    step = script.steps[0]
    script.steps[0] = lambda: (look(script.requests[-1]), step())[1]
    way.send(script, sp.Policy(sp.Deadline(4), clock=clock), timeout=library.Timeout(3.5))
    # Never 0: a socket without any time fails in another way than by a timeout.
    assert seen == [3.5, 3.0 + way.grace, 2.0 + way.grace, way.grace or 0.001]


@each_async
def test_attempt_that_is_cut_off_ends_in_the_clients_own_timeout(way: Way) -> None:
    async def hang() -> None:
        await (trio.sleep if way.loop == "trio" else asyncio.sleep)(3600)

    class Hanging(way.library.AsyncBaseTransport):  # type: ignore[misc,name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            await hang()

    script = way.script()
    script.transport = Hanging()
    under = sp.Policy(
        sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None), sp.Timeout(0.01), name="shop"
    )
    with pytest.raises(way.library.ReadTimeout) as caught:
        way.send(script, under)
    # Both, whichever of the two the caller has learnt to expect.
    assert isinstance(caught.value, sp.AttemptTimeout) and isinstance(caught.value, TimeoutError)
    assert type(caught.value.__cause__) is sp.AttemptTimeout
    assert str(caught.value) == "an attempt of 'shop' took longer than 0.01 s"
    assert caught.value.request.url == URL
    assert "2 attempts" in caught.value.__notes__[0]
    assert exhausted_by(caught.value) is not None
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (way.library.ReadTimeout, str(caught.value))
    # A POST may have been processed: one attempt, and no more.
    with pytest.raises(way.library.ReadTimeout) as caught:
        way.send(script, under, "POST")
    assert "POST without an idempotency key may have been processed" in caught.value.__notes__[0]


@each_async
def test_deadline_that_cuts_an_attempt_off_is_final_to_outer_layers(way: Way) -> None:
    class Hanging(way.library.AsyncBaseTransport):  # type: ignore[misc,name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            await (trio.sleep if way.loop == "trio" else asyncio.sleep)(3600)

    script = way.script()
    script.transport = Hanging()
    with pytest.raises(way.library.ReadTimeout) as caught:
        way.send(script, sp.Policy(sp.Deadline(0.2), sp.Retry(budget=None), name="shop"))
    assert isinstance(caught.value, sp.DeadlineExceeded) and caught.value.scope == "shop"
    mark = exhausted_by(caught.value)
    assert mark is not None and (mark.attempts, mark.layer) == (1, "shop")


@each
def test_error_that_is_not_a_timeout_keeps_its_type_past_the_deadline(way: Way) -> None:
    clock = sp.testing.FakeClock()
    refused = way.library.ConnectError("refused")

    def late() -> Exception:
        clock.advance(2)
        return refused  # type: ignore[no-any-return]

    with pytest.raises(way.library.ConnectError) as caught:
        way.send(way.script(late), sp.Policy(sp.Deadline(1), clock=clock))
    assert caught.value is refused and caught.value.__cause__ is None


# Other instances, other credentials.


@each
def test_before_attempt_tries_another_instance_without_the_credentials(way: Way) -> None:
    def rotate(attempt: Any) -> None:
        if attempt.number == 2:
            attempt.request.host = "b.example:8443"

    script = way.script(whole(503), whole(503), whole(200))
    response = way.send(
        script,
        policy(before_attempt=rotate),
        headers={"Authorization": "s", "X-A": "1"},
        extensions={"sni_hostname": "a.example"},
    )
    assert [str(request.url) for request in script.requests] == [
        "https://a.example/path?token=secret",
        "https://b.example:8443/path?token=secret",
        "https://a.example/path?token=secret",
    ]
    assert script.sent("host") == ["a.example", "b.example:8443", "a.example"]
    assert script.sent("x-a") == ["1"] * 3
    assert script.sent("authorization") == ["s", None, "s"]
    assert ["sni_hostname" in request.extensions for request in script.requests] == [True, False, True]
    assert response.request.url.host == "a.example"


@each
def test_before_attempt_may_set_headers_for_one_attempt(way: Way) -> None:
    def tag(attempt: Any) -> None:
        attempt.request.headers["X-Tag"] = str(attempt.number)

    script = way.script(whole(503), whole(200))
    response = way.send(script, policy(before_attempt=tag))
    assert script.sent("x-tag") == ["1", "2"]
    assert "x-tag" not in response.request.headers


def renew(draft: Any, response: Any) -> None:
    draft.headers["Authorization"] = f"new after {response.headers['www-authenticate']}"


@each
def test_reauthentication_runs_once_and_lasts(way: Way) -> None:
    script = way.script(
        whole(401, www_authenticate="first"), whole(503), whole(401, www_authenticate="second")
    )
    response = way.send(script, policy(), reauth=renew, headers={"Authorization": "old"})
    assert response.status_code == 401
    assert script.sent("authorization") == ["old", "new after first", "new after first"]


@each
def test_reauthentication_does_not_count_as_a_retry(way: Way) -> None:
    script = way.script(whole(401, www_authenticate="x"), whole(200, b"in"))
    budget = Empty()
    response = way.send(script, policy(attempts=1, budget=budget), "POST", reauth=renew, content=b"x")
    assert (response.content, script.bodies) == (b"in", [b"x", b"x"])


@each
@pytest.mark.parametrize("status", [401, 403])
def test_reauth_that_returns_false_passes_the_response_on(way: Way, status: int) -> None:
    asked: list[int] = []

    def decline(draft: Any, response: Any) -> bool:
        asked.append(response.status_code)
        return False

    reply = whole(status, b"no")
    got = way.send(way.script(reply), policy(), reauth=decline, reauth_on={403})
    assert (got.status_code, got.content) == (status, b"no")
    assert asked == ([403] if status == 403 else [])


@each
def test_hook_that_raises_ends_the_call_with_its_error(way: Way) -> None:
    def broken(draft: Any, response: Any) -> None:
        raise LookupError("no token")

    reply = Reply(401, b"x")
    with pytest.raises(LookupError, match="no token"):
        way.send(way.script(reply), policy(on=Exception), reauth=broken)
    assert reply.closed == 1


@each
def test_error_of_a_hook_is_raised_without_a_retry(way: Way) -> None:
    error = LookupError("no token")

    def broken(draft: Any, response: Any) -> None:
        raise error

    reply = Reply(401, b"x")
    with pytest.raises(LookupError) as caught:
        way.send(way.script(reply), sp.Policy(sp.Bulkhead(1)), reauth=broken)
    assert caught.value is error
    assert reply.closed == 1


@pytest.mark.parametrize("is_over", [False, True])
def test_answer_is_discarded_exactly_once(
    is_over: bool,
) -> None:
    """A hook that runs in a thread left behind may raise when the caller has gone long since."""
    response = httpx.Response(401)
    transport = stormproof.httpx.Transport(policy(), httpx.MockTransport(lambda _: response), reauth=renew)
    exchange = transport._client._own.exchange(httpx.Request("GET", URL))
    steps = judged(exchange, response)
    assert next(steps)[0] is renew
    at_the_end = list(release(exchange, hurry=True)) if is_over else []
    in_the_attempt = []
    with pytest.raises(sp.Permanent):
        in_the_attempt.append(steps.throw(LookupError("no token")))
        next(steps)
    assert [step[1:] for step in at_the_end + in_the_attempt] == [(response, 0)]
    assert len(at_the_end) == is_over


@each
def test_async_hook_is_awaited(way: Way) -> None:
    async def later(draft: Any, response: Any) -> None:
        draft.headers["Authorization"] = "new"

    script = way.script(whole(401), whole(200))
    if way.loop is None:
        with pytest.raises(TypeError, match="reauth must not be async in a sync call"):
            way.send(script, policy(), reauth=later)
    else:
        way.send(script, policy(), reauth=later)
        assert script.sent("authorization")[1] == "new"


@each
def test_stream_cannot_be_reauthenticated(way: Way) -> None:
    script = way.script(whole(401))
    assert way.send(script, policy(), "PUT", content=_one_shot(way), reauth=renew).status_code == 401


@each
def test_credentials_renewed_at_another_origin_stay_there(way: Way) -> None:
    def rotate(attempt: Any) -> None:
        if attempt.number == 1:
            attempt.request.host = "b.example"

    def for_b(draft: Any, response: Any) -> None:
        draft.headers["Authorization"] = "for b"

    script = way.script(whole(401), whole(503), whole(200))
    way.send(script, policy(before_attempt=rotate), reauth=for_b, headers={"Authorization": "for a"})
    assert script.sent("host") == ["b.example", "b.example", "a.example"]
    assert script.sent("authorization") == [None, "for b", "for a"]


# Around the transport.


@each
def test_transport_below_is_opened_and_closed(way: Way) -> None:
    calls: list[str] = []
    script = way.script(whole(200))
    below: Any = type(script.transport)
    if way.loop is None:
        below.__enter__ = lambda self: calls.append("enter") or self
        below.__exit__ = lambda self, *exc: calls.append("exit")
    else:

        async def enter(self: Any) -> Any:
            calls.append("enter")
            return self

        async def leave(self: Any, *exc: Any) -> None:
            calls.append("exit")

        below.__aenter__, below.__aexit__ = enter, leave
    way.send(script, policy())
    assert calls == ["enter", "exit"]


def test_close_closes_the_transport_below() -> None:
    closed: list[str] = []

    class Below(httpx.BaseTransport):
        def close(self) -> None:
            closed.append("closed")

    class AsyncBelow(httpx.AsyncBaseTransport):
        async def aclose(self) -> None:
            closed.append("aclosed")

    stormproof.httpx.Transport(policy(), Below()).close()
    asyncio.run(stormproof.httpx.AsyncTransport(policy(), AsyncBelow()).aclose())
    assert closed == ["closed", "aclosed"]


def test_transport_without_an_inner_one_makes_the_default() -> None:
    with stormproof.httpx.Transport(policy()) as transport:
        assert isinstance(transport._inner, httpx.HTTPTransport)
    assert isinstance(stormproof.httpx2.Transport(policy())._inner, httpx2.HTTPTransport)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: stormproof.httpx.Transport("fast"), "httpx: policy must be a Policy, got 'fast'"),  # type: ignore[arg-type]
        (
            lambda: stormproof.httpx.Transport(policy(), 5),
            "Transport: transport must be an httpx.BaseTransport or None",
        ),
        (
            lambda: stormproof.httpx.Transport(policy(), httpx.AsyncHTTPTransport()),
            "Transport: transport must be an httpx.BaseTransport or None",
        ),
        (
            lambda: stormproof.httpx.Transport(policy(), httpx2.HTTPTransport()),
            "Transport: transport must be an httpx.BaseTransport or None",
        ),
        (
            lambda: stormproof.httpx.Transport(policy(), retries=3),
            "options must be those of ClientOptions, got retries=3",
        ),
        (
            lambda: stormproof.httpx.Transport(
                sp.Policy(sp.Hedge(vary=lambda n, a, k: (a, k), idempotent=True))
            ),
            "a Hedge must have vary=None",
        ),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


def test_transport_may_be_shared_by_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    seen: dict[str, list[str | None]] = {}

    def handler(request: httpx.Request) -> httpx.Response:
        attempts = seen.setdefault(request.url.path, [])
        attempts.append(request.headers.get("x-request-attempt"))
        return httpx.Response(503 if len(attempts) < 3 else 200, text=request.url.path)

    transport = stormproof.httpx.Transport(policy(), httpx.MockTransport(handler))
    with httpx.Client(transport=transport) as client, ThreadPoolExecutor(8) as pool:
        paths = [f"/{n}" for n in range(200)]
        assert list(pool.map(lambda path: client.get(f"http://a{path}").text, paths)) == paths
    assert set(map(tuple, seen.values())) == {(None, "2", "3")}


def test_finished_request_is_not_kept_alive() -> None:
    import gc
    import weakref

    class Answer(httpx.Response):
        pass

    kept: list[Any] = []

    def handler(request: httpx.Request) -> httpx.Response:
        response = Answer(503)
        kept.append(weakref.ref(response))
        return response

    transport = stormproof.httpx.Transport(policy(attempts=3), httpx.MockTransport(handler))
    with httpx.Client(transport=transport) as client:
        client.get("http://a/")
    gc.collect()
    assert [ref() for ref in kept] == [None] * 3


def test_options_are_readable() -> None:
    options = stormproof.httpx.Transport(policy(), buffer=5, drain=0).options
    assert (options.buffer, options.drain) == (5, 0)
    assert options == stormproof.httpx.ClientOptions(buffer=5, drain=0)


def test_repr_names_the_policy() -> None:
    assert "name='shop'" in repr(stormproof.httpx.Transport(policy()))


@each
def test_on_result_may_read_a_short_answer(way: Way) -> None:
    def pending(response: Any) -> bool:
        response.read()
        return bool(response.json()["state"] == "pending")

    script = way.script(whole(200, b'{"state": "pending"}'), whole(200, b'{"state": "done"}'))
    assert way.send(script, policy(on_result=pending)).json() == {"state": "done"}


@each
def test_answer_with_an_unreadable_length_is_not_buffered(way: Way) -> None:
    """A length that cannot be read does not count as one: the body is the caller's."""
    for value in ("x", "-1", "9" * 30):
        reply = Reply(200, b"abc", headers={"Content-Length": value})
        assert way.send(way.script(reply), policy()).content == b"abc"
        assert reply.closed == 1


@each
def test_on_result_is_not_called_for_failed_answers(way: Way) -> None:
    asked: list[int] = []

    def refuses(response: Any) -> bool:
        asked.append(response.status_code)
        return bool(response.status_code == 202)

    assert (
        way.send(way.script(whole(503), whole(202), whole(200)), policy(on_result=refuses)).status_code == 200
    )
    assert asked == [202, 200]


class Noting(Reply):
    """A reply that records when it is closed."""

    def __init__(self, event: threading.Event, *given: Any, **options: Any) -> None:
        self._event = event
        super().__init__(*given, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "closed" and value:
            self._event.set()


@each_sync
def test_late_response_of_an_abandoned_thread_is_closed(way: Way) -> None:
    began, go, closed = threading.Event(), threading.Event(), threading.Event()
    late = Noting(closed, 200, b"late")

    def slow() -> Reply:
        began.set()
        go.wait(10)
        return late

    with sp.deadline(None) as scope:
        canceller = threading.Thread(target=lambda: began.wait(10) and scope.cancel())
        canceller.start()
        with pytest.raises(sp.Cancelled):
            way.send(way.script(slow), sp.Policy(sp.Timeout(60, thread=True)))
        canceller.join(10)
    go.set()
    assert closed.wait(10) and late.closed == 1


@each
def test_scope_cancelled_in_the_wait_is_not_hidden_by_an_answer(way: Way) -> None:
    with sp.deadline(None) as scope:

        def cancel(event: Any) -> None:
            scope.cancelled = True

        stop = sp.subscribe(cancel)
        try:
            with pytest.raises(sp.Cancelled):
                way.send(way.script(whole(503)), policy())
        finally:
            stop()


@each
def test_request_is_not_sent_when_the_hook_has_used_up_the_time(way: Way) -> None:
    clock = sp.testing.FakeClock()
    retry = sp.Retry(before_attempt=lambda attempt: clock.advance(10), budget=None)
    script = way.script()
    with pytest.raises(sp.DeadlineExceeded):
        way.send(script, sp.Policy(sp.Deadline(5), retry, clock=clock))
    assert script.requests == []


@each
def test_status_below_400_may_be_worth_retrying(way: Way) -> None:
    script = way.script(whole(202), whole(503))
    assert way.send(script, policy(), statuses={202}).status_code == 503


@each
def test_post_is_not_hedged_even_if_declared_idempotent(way: Way) -> None:
    under = sp.Policy(sp.Hedge(after=0, max=3, idempotent=True, budget=None))
    script = way.script(whole(200))
    assert way.send(script, under, "POST").status_code == 200
    assert len(script.requests) == 1
    script = way.script(whole(200))
    assert way.send(script, under, "PUT", content=_one_shot(way)).status_code == 200


@each_sync
def test_losing_hedge_is_closed(way: Way) -> None:
    go, closed = threading.Event(), threading.Event()

    def slow() -> Reply:
        go.wait(10)
        return Noting(closed, 200, b"late", length=4)

    script = way.script(slow, whole(200, b"fast"))
    under = sp.Policy(sp.Hedge(after=0.01, max=2, budget=sp.Budget()))
    assert way.send(script, under).content == b"fast"
    go.set()
    assert closed.wait(10)


class Interrupt(BaseException):
    """An exception that no policy may catch."""


@each
def test_interrupt_closes_the_open_response(way: Way) -> None:
    reply = Reply(200, b"streamed")

    def interrupted(response: Any) -> bool:
        raise Interrupt

    with pytest.raises(Interrupt):
        way.send(way.script(reply), policy(on_result=interrupted))
    assert (reply.closed, reply.read) == (1, 0)


@each
def test_interrupt_while_a_discarded_answer_is_drained_closes_it(way: Way) -> None:
    reply = Reply(202, b"x", Interrupt())
    with pytest.raises(Interrupt):
        way.send(way.script(reply), policy(on_result=lambda response: True))
    assert (reply.read, reply.closed) == (1, 1)


@types.coroutine
def _for_ever() -> Generator[None, None, None]:
    while True:
        yield


def test_request_that_is_closed_in_the_middle_waits_for_nothing_more() -> None:
    """As at the end of an event loop: a coroutine that awaits after its close() is a RuntimeError."""

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"x"

        async def aclose(self) -> None:
            await _for_ever()

    async def renew(draft: Any, response: Any) -> None:
        await _for_ever()

    below = httpx.MockTransport(lambda request: httpx.Response(401, stream=Slow()))
    transport = stormproof.httpx.AsyncTransport(policy(), below, reauth=renew)
    request = httpx.AsyncClient(transport=transport).get(URL)
    request.send(None)
    request.close()
    with pytest.raises(RuntimeError, match="cannot reuse"):
        request.send(None)


@each
def test_fallback_after_a_broken_hook_closes_the_open_response(way: Way) -> None:
    reply = Reply(200, b"streamed")

    def broken(response: Any) -> bool:
        raise LookupError

    under = sp.Policy(sp.Fallback(lambda: way.library.Response(204)), sp.Retry(on_result=broken, budget=None))
    assert way.send(way.script(reply), under).status_code == 204
    assert reply.closed == 1
