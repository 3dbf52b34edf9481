"""One attempt, and the end of an exchange: generators of steps, which a thread or a task carries out.

A step is ``(function, *arguments)``; its result, awaited in an async client, is sent back, and what
it raises is raised here.
"""

from __future__ import annotations

from .._drivers.sync import refuse_awaitable
from .._primitives.errors import Cancelled, Permanent
from . import tracing
from .final_answer import final_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from .exchange import Exchange

    Steps = Generator[tuple[Any, ...], Any, Any]


def attempt(exchange: Exchange) -> Steps:
    """Send the request once; the response, or the error that stands for it if it is a failure."""
    exchange.last = None
    exchange.simple = False
    if exchange.number > 1:
        # Of hedges that retry side by side, another one may still read what is open.
        if not exchange.rules.hedges_retries:
            yield from release(exchange)
        exchange.repeat.replay.rewind()
    response = yield from _answer(exchange)
    return (yield from judged(exchange, response))


def judged(exchange: Exchange, response: object) -> Steps:
    """``response`` if it is a success; else what stands for it is raised, after one try to authenticate."""
    port, rules = exchange.port, exchange.rules
    exchange.started = True
    yield from _keep(exchange, response)
    reauth = rules.options.reauth
    if reauth is not None and port.status(response) in rules.options.reauth_on and not exchange.reauthed:
        response = yield from _reauthenticate(exchange, reauth, response)
    status = port.status(response)
    if rules.fails(status, port.fields(response)):
        yield from _free(exchange, response)
        raise exchange.refuse(response)
    if status >= 400 and rules.options.buffer:
        yield from _attempted(exchange, (port.buffer, response, rules.options.buffer))
    return response


def _answer(exchange: Exchange) -> Steps:
    """The response to the request as it stands, read to its end if it announces to be short."""
    port, most = exchange.port, exchange.rules.options.buffer
    request = exchange.prepare()
    exchange.started = True
    if tracing.begin is None:
        return (yield from _attempted(exchange, (port.fetch, request, most)))
    exchange.sent += 1
    end = tracing.begin(port.method(request), port.url(request), exchange.sent)
    try:
        response = yield from _attempted(exchange, (port.fetch, request, most))
    except BaseException as error:
        end(None, error)
        raise
    end(port.status(response), None)
    return response


def _attempted(exchange: Exchange, step: tuple[Any, ...]) -> Steps:
    """The result of ``step``, whose error is that of the attempt."""
    try:
        return (yield step)
    except Exception as error:
        seen = exchange.broke(error)
        if seen is error:
            raise
        raise seen from seen.__cause__


def _free(exchange: Exchange, response: object) -> Steps:
    """Read a failed response that did not announce to be short, if it is: a retry may wait for long, and
    must not keep the connection meanwhile."""
    try:
        yield exchange.port.buffer, response, exchange.rules.options.drain
    except Exception:
        # Its status has said all that counts.
        pass


def _reauthenticate(exchange: Exchange, reauth: Callable[..., Any], response: object) -> Steps:
    """Let the hook renew credentials and send the request once more; the first response if it cannot."""
    if exchange.repeat.replay.refusal() is not None:
        return response
    exchange.reauthed = True
    draft = exchange.draft
    try:
        renewed = yield reauth, draft, response
        refuse_awaitable("reauth", renewed)
    except Exception as error:
        yield from _drop(exchange, response, 0)
        raise Permanent(error) from None
    if renewed is False:
        return response
    yield from _drop(exchange, response, exchange.rules.options.drain)
    exchange.reauthenticated(draft)
    exchange.repeat.replay.rewind()
    second = yield from _answer(exchange)
    yield from _keep(exchange, second)
    return second


def _keep(exchange: Exchange, response: object) -> Steps:
    """Hand ``response`` to the exchange, unless the caller has stopped waiting for it."""
    exchange.keep(response)
    # Checked only now: if the exchange ended earlier, it either discarded the response or is seen here.
    if exchange.unwanted:
        yield from _drop(exchange, response, 0)
        raise Cancelled("the caller does not wait for this attempt any more")


def _drop(exchange: Exchange, response: object, most: int) -> Steps:
    if exchange.take(response):
        yield exchange.port.discard, response, most


def release(exchange: Exchange, answer: object = None, hurry: bool = False) -> Steps:
    """Close every response of the exchange but ``answer``; in a ``hurry`` nothing more is read of them."""
    most = 0 if hurry else exchange.rules.options.drain
    for response in exchange.leftovers(answer):
        yield exchange.port.discard, response, most


def settle(exchange: Exchange, response: object) -> Steps:
    """The end of an exchange whose policy gave ``response``, which may be a `Fallback`'s."""
    exchange.finished = True
    yield from release(exchange, response)
    if not exchange.port.is_response(response):
        raise TypeError(
            f"{exchange.port.name}: a Fallback must give a response of the client's own, "
            f"got a {type(response).__name__}"
        )
    return response


def conclude(exchange: Exchange, error: BaseException) -> Steps:
    """The end of an exchange whose policy raised ``error``: the response for the caller, or what to raise."""
    exchange.finished = True
    answer = final_answer(exchange, error) if isinstance(error, Exception) else error
    # A coroutine that is being closed cannot await anything more.
    if not isinstance(error, GeneratorExit):
        yield from release(exchange, answer, hurry=answer is error and not isinstance(error, Exception))
    if isinstance(answer, BaseException):
        try:
            raise answer
        finally:
            # Its traceback holds this frame.
            del answer, error
    return answer


def drive(steps: Steps) -> Any:
    """Carry out ``steps`` in this thread."""
    try:
        step = next(steps)
        while True:
            try:
                reply = step[0](*step[1:])
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as end:
        return end.value


async def drive_async(steps: Steps) -> Any:
    """Carry out ``steps`` in this task."""
    try:
        step = next(steps)
        while True:
            try:
                reply = step[0](*step[1:])
                if hasattr(reply, "__await__"):
                    reply = await reply
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as end:
        return end.value
