"""The parts of `stormproof.requests` that are its own; the common ones are in tests/integration/http."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import urllib3
from tests.support.http.each_client import retry
from tests.support.http.server import Server, answer, hang, reset

import stormproof as sp
import stormproof.requests


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with mounted(retry()) as made:
        yield made


def mounted(policy: sp.Policy, **options: Any) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", stormproof.requests.Adapter(policy, **options))
    return session


def test_adapter_takes_the_keywords_of_an_http_adapter() -> None:
    adapter = stormproof.requests.Adapter(retry(), pool_maxsize=3, pool_block=True, buffer=10)
    assert isinstance(adapter, requests.adapters.HTTPAdapter)
    assert (adapter._pool_maxsize, adapter.options.buffer, adapter.max_retries.total) == (3, 10, 0)


def test_retries_are_the_policys_alone() -> None:
    with pytest.raises(TypeError, match="max_retries must not be given"):
        stormproof.requests.Adapter(retry(), max_retries=3)
    with pytest.raises(TypeError, match="pool_size"):
        stormproof.requests.Adapter(retry(), pool_size=3)


def test_pickle_carries_policy_and_options(server: Server) -> None:
    server.on("/", answer(503), answer(200))
    adapter = pickle.loads(pickle.dumps(stormproof.requests.Adapter(retry(), attempt_header="X-Try")))
    with requests.Session() as session:
        session.mount("http://", adapter)
        assert session.get(server.url()).status_code == 200
    assert server.seen[1].header("X-Try") == "2"


def test_prepared_request_is_not_changed(server: Server, session: requests.Session) -> None:
    server.on("/", answer(503), answer(200))
    prepared = session.prepare_request(requests.Request("PUT", server.url(), data=b"x", headers={"A": "b"}))
    before = dict(prepared.headers)
    response = session.send(prepared)
    assert (dict(prepared.headers), prepared.body) == (before, b"x")
    # What was sent in the end can be seen on the response.
    assert response.request.headers["X-Request-Attempt"] == "2"


def test_file_is_sent_again_from_where_it_stood(server: Server, session: requests.Session) -> None:
    server.on("/", answer(503), reset(), answer(200))
    file = io.BytesIO(b"skipped|sent")
    file.seek(8)
    assert session.put(server.url(), data=file).status_code == 200
    assert [seen.body for seen in server.seen] == [b"sent"] * 3


def test_forms_and_uploads_are_sent_again(server: Server, session: requests.Session) -> None:
    server.on("/", answer(503), answer(200))
    session.put(server.url(), files={"f": ("name.txt", io.BytesIO(b"content"))}, data={"a": "1"})
    first, second = server.seen
    assert first.body == second.body and b"content" in first.body


def test_body_that_fails_while_it_is_read_comes_back_untouched(
    server: Server, session: requests.Session
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"one"
        raise ValueError("the file is gone")

    server.on("/", answer(200))
    body = broken()
    prepared = session.prepare_request(requests.Request("PUT", server.url(), data=body))
    with pytest.raises(ValueError, match="the file is gone"):
        session.send(prepared)
    assert prepared.body is body


def test_stream_leaves_the_raw_response_to_the_caller(server: Server, session: requests.Session) -> None:
    server.on("/", answer(503), answer(200, b"raw bytes"))
    with session.get(server.url(), stream=True) as response:
        assert response.raw.read() == b"raw bytes"


def test_hooks_run_once_and_cookies_are_kept(server: Server, session: requests.Session) -> None:
    server.on("/", answer(503, headers=[("Set-Cookie", "a=1")]), answer(200, headers=[("Set-Cookie", "b=2")]))
    seen: list[int] = []
    response = session.get(server.url(), hooks={"response": lambda r, **kw: seen.append(r.status_code)})
    assert seen == [200]
    # The answer that counts sets cookies; one that was retried does not.
    assert session.cookies.get_dict() == {"b": "2"}
    assert response.elapsed.total_seconds() > 0


@pytest.mark.parametrize("given", [30, (30, 30), urllib3.Timeout(connect=30, read=30), None])
def test_every_kind_of_timeout_shrinks_to_the_deadline(server: Server, given: Any) -> None:
    server.on("/", hang())
    with mounted(sp.Policy(sp.Deadline(0.1), *retry().strategies)) as session:
        with pytest.raises((requests.Timeout, TimeoutError)):
            session.get(server.url(), timeout=given)
    assert len(server.seen) == 1


def test_redirected_post_keeps_its_key(server: Server) -> None:
    server.on("/a", answer(503), answer(307, headers=[("Location", "/b")]))
    server.on("/b", answer(503), answer(201))
    with mounted(retry(), idempotency_key="auto") as session:
        assert session.post(server.url("/a"), data=b"once").status_code == 201
    keys = {seen.header("Idempotency-Key") for seen in server.seen}
    assert len(server.seen) == 4 and len(keys) == 1 and None not in keys


def test_overrides_nest_and_end(server: Server, session: requests.Session) -> None:
    server.on("/", answer(503))
    with stormproof.requests.override(retry=False):
        with stormproof.requests.override(policy=retry(attempts=2)):
            session.get(server.url())
        assert len(server.seen) == 2
        session.get(server.url())
        assert len(server.seen) == 3
    session.get(server.url())
    assert len(server.seen) == 7
    with pytest.raises(TypeError, match="no option 'attempts'"), stormproof.requests.override(attempts=2):
        session.get(server.url())


def test_threads_share_a_session(server: Server) -> None:
    for number in range(8):
        server.on(f"/{number}", answer(503), reset(), answer(200, str(number).encode()))
    got: dict[int, str] = {}
    with mounted(retry(), pool_maxsize=8) as session:

        def work(number: int) -> None:
            got[number] = session.get(server.url(f"/{number}")).text

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == {number: str(number) for number in range(8)}
