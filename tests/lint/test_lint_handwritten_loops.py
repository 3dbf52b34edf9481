"""Which loops are retry loops by hand, and which only look like one."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Finding, check

HEAD = "import asyncio, itertools, queue, random, time\n"


def findings(text: str) -> list[Finding]:
    return check(HEAD + textwrap.dedent(text), "module.py")


def messages(text: str) -> list[str]:
    return [f"{finding.code} {finding.message.rpartition('with ')[2]}" for finding in findings(text)]


RETRIES = {
    "while true": (
        """
        def f():
            while True:
                try:
                    return call()
                except OSError:
                    time.sleep(1)
        """,
        "no limit and no jitter",
    ),
    "counted, doubling": (
        """
        def f():
            for n in range(5):
                try:
                    return call()
                except OSError as error:
                    last = error
                    time.sleep(2 ** n)
            raise last
        """,
        "no jitter",
    ),
    "break after the call, sleep after the try": (
        """
        def f():
            attempts = 0
            while attempts < 3:
                try:
                    result = call()
                    break
                except OSError:
                    attempts += 1
                time.sleep(delay)
            return result
        """,
        "no jitter",
    ),
    "else": (
        """
        def f():
            for n in range(3):
                try:
                    result = call()
                except OSError:
                    time.sleep(1 * n)
                else:
                    return result
        """,
        "no jitter",
    ),
    "raise at the limit": (
        """
        def f():
            n = 0
            while True:
                try:
                    return call()
                except OSError:
                    n += 1
                    if n > 3:
                        raise
                    time.sleep(1)
        """,
        "no jitter",
    ),
    "a list of waits": (
        """
        def f():
            for wait in (1, 2, 4):
                try:
                    return call()
                except OSError:
                    time.sleep(wait)
        """,
        "no jitter",
    ),
    "without an end, with jitter": (
        """
        def f():
            for n in itertools.count():
                try:
                    return call()
                except OSError:
                    time.sleep(random.random() * n)
        """,
        "no limit",
    ),
    "async, inside a with": (
        """
        async def f():
            for n in range(3):
                with span():
                    try:
                        return await call()
                    except OSError:
                        await asyncio.sleep(1)
        """,
        "no jitter",
    ),
    "no sleep": (
        """
        def f():
            for n in range(3):
                try:
                    return call()
                except Exception:
                    pass
        """,
        "no wait",
    ),
    "no sleep, for ever": (
        """
        def f():
            while True:
                try:
                    return call()
                except (ConnectionError, TimeoutError) as error:
                    logger.warning("again: %s", error)
        """,
        "no limit and no wait",
    ),
    "a short sleep, bounded": (
        """
        def f():
            for n in range(10):
                try:
                    return call()
                except OSError:
                    time.sleep(0.1)
        """,
        "no jitter",
    ),
    "a function that calls itself": (
        """
        def f(url):
            try:
                return call(url)
            except ConnectionError:
                time.sleep(1)
                return f(url)
        """,
        "no limit and no jitter",
    ),
    "a function that calls itself, counted": (
        """
        def retry(url, left=3):
            try:
                return call(url)
            except ConnectionError:
                if not left:
                    raise
                return retry(url, left - 1)
        """,
        "no wait",
    ),
    "a method that calls itself": (
        """
        class Client:
            def retry(self, url):
                try:
                    return requests.get(url)
                except Exception:
                    return self.retry(url)
        """,
        "no limit and no wait",
    ),
    "no wait at all": (
        """
        def f():
            for n in range(3):
                try:
                    return call()
                except OSError:
                    time.sleep(0)
        """,
        "no wait",
    ),
}


@pytest.mark.parametrize("name", RETRIES)
def test_retry_loop_is_found(name: str) -> None:
    text, lacking = RETRIES[name]
    assert messages(text) == [f"SP009 {lacking}"]


OTHERS = {
    "bounded, with jitter": """
        def f():
            for n in range(3):
                try:
                    return call()
                except OSError:
                    time.sleep(random.uniform(0, 2 ** n))
        """,
    "jitter in a variable": """
        def f():
            for n in range(3):
                wait = 2 ** n
                wait += random.random()
                try:
                    return call()
                except OSError:
                    time.sleep(wait)
        """,
    "another module computes the wait": """
        def f(policy):
            for n in range(3):
                try:
                    return call()
                except OSError:
                    time.sleep(policy.wait_for(n))
        """,
    "the server says how long": """
        def f():
            for n in range(3):
                try:
                    return call()
                except OSError as error:
                    pause = float(error.response.headers["Retry-After"])
                    time.sleep(pause)
        """,
    "jitter from a function, unpacked": """
        def f(policy):
            left = 3
            wait = 1
            while True:
                try:
                    return call()
                except OSError:
                    wait, again = policy.next(wait)
                    if left == 0:
                        give_up()
                    time.sleep(wait)
                    left -= 1
        """,
    "a poll that survives errors": """
        def f():
            while True:
                try:
                    state = look()
                except OSError:
                    time.sleep(5)
                    continue
                if state == "done":
                    return state
                time.sleep(5)
        """,
    "jitter in a module's own loop": """
        for n in range(3):
            try:
                result = call()
                break
            except OSError:
                wait = 2 ** n + random.uniform(0, 1)
                time.sleep(wait)
        """,
    "a worker that survives errors": """
        def f():
            while True:
                try:
                    work()
                except OSError:
                    time.sleep(5)
        """,
    "a poll of a queue": """
        def f(q):
            while True:
                try:
                    return q.get_nowait()
                except queue.Empty:
                    time.sleep(0.5)
        """,
    "a poll until a time": """
        def f():
            end = time.monotonic() + 5
            while time.monotonic() < end:
                try:
                    return connect()
                except OSError:
                    time.sleep(0.5)
        """,
    "a poll that looks at the clock inside": """
        def f():
            while True:
                try:
                    return connect()
                except OSError:
                    if time.time() > limit:
                        raise
                    time.sleep(0.5)
        """,
    "a poll by short glances": """
        def f():
            for _ in range(100):
                try:
                    return connect()
                except OSError:
                    time.sleep(0.05)
        """,
    "waits for a condition": """
        def f():
            while True:
                try:
                    if ready():
                        return True
                except OSError:
                    pass
                time.sleep(1)
        """,
    "goes through things": """
        def f(mirrors):
            for mirror in mirrors:
                try:
                    return fetch(mirror)
                except OSError:
                    time.sleep(1)
        """,
    "every error leaves": """
        def f():
            while True:
                try:
                    return call()
                except OSError:
                    time.sleep(1)
                    raise
        """,
    "the sleep is in a function inside": """
        def f():
            for n in range(3):
                try:
                    return call()
                except OSError:
                    def later():
                        time.sleep(1)
                    start(later)
        """,
    "no sleep, but something is set right": """
        def f():
            for n in range(3):
                try:
                    return call()
                except OSError:
                    reconnect()
        """,
    "no sleep, another call each time": """
        def f():
            for n in range(3):
                try:
                    return bind(8000 + n)
                except OSError:
                    pass
        """,
    "no sleep, another argument after a failure": """
        def f():
            mode = "rb"
            while True:
                try:
                    return read(mode)
                except OSError:
                    mode = "r"
        """,
    "no sleep, and no failure of a network": """
        def f():
            while True:
                try:
                    return int(input())
                except ValueError:
                    pass
        """,
    "a function that calls itself for a part": """
        def walk(tree):
            try:
                return leaf(tree)
            except OSError:
                return [walk(child) for child in tree]
        """,
    "a loop that looks at a status of its own kind": """
        def f(client):
            for _ in range(3):
                job = client.job()
                if job.status == "done":
                    return job
                time.sleep(random.uniform(0, 1))
        """,
    "another library's sleep": """
        def f(clock):
            while True:
                try:
                    return call()
                except OSError:
                    clock.sleep(1)
        """,
}


@pytest.mark.parametrize("name", OTHERS)
def test_loop_that_is_not_a_careless_retry_is_left_alone(name: str) -> None:
    assert messages(OTHERS[name]) == []


def test_finding_stands_at_the_loop() -> None:
    (found,) = findings(RETRIES["while true"][0])
    assert (found.place.line, found.place.column) == (4, 5)


def test_loop_on_429_that_ignores_retry_after_is_found() -> None:
    text = """
    def f():
        for n in range(3):
            try:
                response = call()
                if response.status_code == 429:
                    raise Busy
                return response
            except Busy:
                time.sleep({})
    """
    assert [f.code for f in findings(text.format("random.random()"))] == ["SP011"]
    assert findings(text.format("random.random() + float(response.headers['Retry-After'])")) == []


def test_loop_with_bare_except_and_blocking_sleep_has_both_findings() -> None:
    text = """
    async def f():
        for n in range(3):
            try:
                return await call()
            except:
                {}
                time.sleep(random.random())
    """
    assert {f.code for f in findings(text.format("pass"))} == {"SP010", "SP013"}


def test_loop_around_a_retrying_function_is_found() -> None:
    text = """
    import stamina
    @stamina.retry(on=OSError)
    def call(): ...
    def f():
        for n in range(3):
            try:
                return call()
            except OSError:
                time.sleep(random.random())
    """
    assert [f.code for f in findings(text)] == ["SP007"]
