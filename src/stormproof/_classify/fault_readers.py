"""From an exception or a response to a `KnownFault`: `fault_of`, and a reader for each kind of object.

A reader takes the object, the settings, and how deep in a chain of causes it was found; it returns
a fault, or ``None`` when the object does not say. `known_faults.NAMES` names them.
"""

from __future__ import annotations

from . import known_faults
from .foreign_objects import MAX_DEPTH, called, get, is_a, leaves, text_of, whole
from .known_faults import CONFLICT, FINAL, LISTED, LOST, NO_CONNECTION, KnownFault
from .lookup import row_for
from .rpc_status import retry_info
from .server_hints import Pushback, is_digits, pushback, read, should_retry, wait_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .known_faults import Kind
    from .settings import ClassifierSettings

    Reader = Callable[[Any, ClassifierSettings, int], KnownFault | None]

_LEAF_DEPTH = MAX_DEPTH - 4
_MAX_ADDRESSES = 100


def fault_of(error: object, settings: ClassifierSettings, depth: int = 0) -> KnownFault | None:
    """Return the fault that ``error``, an exception or a response, stands for; ``None`` if it is unknown.

    ``depth`` counts the steps from the error that the caller caught.
    """
    if depth > MAX_DEPTH:
        return None
    row = row_for(type(error))
    if row is None:
        return under(error, (), settings, depth) if depth else _carried(error, settings)
    if isinstance(row, KnownFault):
        return resolve(row, error, settings, depth)
    reader: Reader = globals()[row]
    return reader(error, settings, depth)


def _carried(error: object, settings: ClassifierSettings) -> KnownFault | None:
    """An exception of an unknown kind may carry a response, or a status of its own."""
    if not is_a(error, BaseException):
        return None
    response = get(error, "response")
    known = None if response is None else fault_of(response, settings, MAX_DEPTH)
    if known is not None:
        return known
    for source, names in ((error, ("status_code", "status")), (response, ("status_code",))):
        for name in names:
            status = None if source is None else whole(get(source, name))
            if status is not None and 100 <= status <= 599:
                headers = get(error, "headers")
                return _judged(status, get(response, "headers") if headers is None else headers, settings)
    return None


def resolve(fault: KnownFault, error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    """Return ``fault``, or the fault of an error inside ``error`` if ``fault`` says to look there."""
    deeper = None if fault.look is None else under(error, fault.look, settings, depth)
    if deeper is None:
        return fault
    if not deeper.retry:
        return deeper
    return KnownFault(True, deeper.kind, deeper.reason, safe=fault.safe or deeper.safe)


def under(
    error: object, look: tuple[str, ...], settings: ClassifierSettings, depth: int
) -> KnownFault | None:
    """The fault of the error that ``error`` was made from, if it names one that is known.

    One way down at most, so that the work is bounded: what an attribute holds, else the cause,
    else the context.
    """
    for name in (*look, "__cause__", "__context__"):
        if name == "__context__" and get(error, "__suppress_context__"):
            return None
        inner = _exception_in(get(error, name))
        if inner is not None:
            return fault_of(inner, settings, depth + 1)
    return None


def _exception_in(value: object) -> BaseException | None:
    if is_a(value, BaseException):
        return value
    if is_a(value, dict):
        value = (value.get("error"),)
    if is_a(value, tuple):
        for item in reversed(value):
            if is_a(item, BaseException):
                return item
    return None


# --- HTTP -----------------------------------------------------------------------------------------


def http_response(source: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    """Read status and headers of ``source``: a response, or an error that copied them."""
    status = None
    for name in ("status_code", "status", "code"):
        status = whole(get(source, name))
        if status is not None:
            break
    return FINAL if status is None else _judged(status, get(source, "headers"), settings)


def _judged(status: int, headers: object, settings: ClassifierSettings) -> KnownFault:
    """Judge a status by the table and by the headers."""
    if status < 400 and status not in settings.statuses:
        return FINAL
    hints = read(headers)
    advice = should_retry(hints)
    retry = (status in settings.statuses if advice is None else advice) and status not in settings.never
    # A refusal keeps the hint: an `on` that names the error retries it all the same.
    after = wait_from(hints)
    if advice is False:
        return KnownFault(
            False, "pushback", f"HTTP {int(status)}, and the server says not to retry", after=after
        )
    return _http(status, retry, status in known_faults.UNPROCESSED, after)


def _http(status: int, retry: bool, safe: bool, after: float | None) -> KnownFault:
    kind: Kind = "fatal" if not retry else "throttle" if status == 429 else "transient"
    return KnownFault(retry, kind, f"HTTP {int(status)}", safe=safe, after=after)


def http_error(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    response = get(error, "response")
    return http_response(error if response is None else response, settings, depth)


def aiohttp_error(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    """Read an error of aiohttp, which reports replies that are not HTTP as status 400."""
    cause = get(error, "__cause__")
    return LOST if cause is not None and row_for(type(cause)) is LOST else http_error(error, settings, depth)


def aiohttp_proxy(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    """The answer of a proxy to CONNECT: whatever it is, nothing has reached the server."""
    status = whole(get(error, "status"))
    if status is None or status not in settings.statuses:
        return FINAL
    after = wait_from(read(get(error, "headers")))
    return KnownFault(True, NO_CONNECTION.kind, NO_CONNECTION.reason, safe=True, after=after)


def proxy(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    """httpx and httpcore: the proxy's own status begins the message."""
    text = text_of(error)
    if is_digits(text[:3]):
        return NO_CONNECTION if int(text[:3]) in settings.statuses else FINAL
    return NO_CONNECTION if "could not connect" in text.lower() else under(error, (), settings, depth)


def http2(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    """httpx, httpcore: a protocol error carries h2's event, which may prove that nothing was processed."""
    for carrier in (error, get(error, "__cause__")):
        args = get(carrier, "args")
        message = args[0] if is_a(args, tuple) and args else None
        refused = whole(get(message, "error_code")) == known_faults.REFUSED_STREAM and get(
            message, "remote_reset"
        )
        # A GOAWAY that names no stream: not even the first one was looked at.
        if (
            refused
            or whole(get(message, "last_stream_id")) == 0
            or type(message).__name__ == "TooManyStreamsError"
        ):
            return known_faults.NO_STREAM
    local = type(error).__name__ == "LocalProtocolError"
    return FINAL if local else resolve(LOST.looking("args"), error, settings, depth)


def sdk_status(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    """openai and anthropic: a status, or an error inside a stream that began with a good one."""
    fault = http_error(error, settings, depth)
    if fault is FINAL:
        return sdk_stream(error, settings, depth)
    if known_faults.OUT_OF_QUOTA in _names_in_body(error):
        return KnownFault(False, "fatal", known_faults.OUT_OF_QUOTA)
    return KnownFault(fault.retry, fault.kind, fault.reason, safe=True, after=fault.after)


def sdk_stream(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    for name in _names_in_body(error):
        if name in known_faults.STREAM_ERRORS:
            return KnownFault(True, "throttle" if "rate_limit" in name else "transient", name, safe=True)
    return FINAL


def _names_in_body(error: object) -> list[str]:
    """Return the ``type`` and the ``code`` of the error that the body of an answer describes."""
    body = get(error, "body")
    if not is_a(body, dict):
        return []
    inner = body.get("error")
    body = inner if is_a(inner, dict) else body
    return [name for name in (body.get("type"), body.get("code")) if is_a(name, str)]


def aws(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    response = get(error, "response")
    if not is_a(response, dict):
        return None
    details, meta = response.get("Error"), response.get("ResponseMetadata")
    code = details.get("Code") if is_a(details, dict) else None
    meta = meta if is_a(meta, dict) else {}
    status = whole(meta.get("HTTPStatusCode"))
    after = wait_from(read(meta.get("HTTPHeaders")))
    # The SDK makes its calls safe to repeat (client tokens), and repeats them itself.
    if is_a(code, str) and code in known_faults.AWS_CODES:
        return KnownFault(True, known_faults.AWS_CODES[code], code, safe=True, after=after)
    if status is None or status < 400:
        return None
    return _http(status, status in settings.statuses and status not in settings.never, True, after)


# --- network --------------------------------------------------------------------------------------


def os_error(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    number = whole(get(error, "errno"))
    if number is not None:
        return known_faults.ERRNOS.get(number, LISTED) if number in settings.errnos else None
    text = text_of(error)
    if text.startswith("Multiple exceptions: "):
        return _several_errnos(text, settings)
    tunnel = text.partition("Tunnel connection failed: ")[2][:3]
    if is_digits(tunnel):
        return NO_CONNECTION if int(tunnel) in settings.statuses else FINAL
    return under(error, (), settings, depth)


def _several_errnos(text: str, settings: ClassifierSettings) -> KnownFault | None:
    """asyncio joins the failures of a host's several addresses into one text."""
    faults = []
    for part in text.split("[Errno ")[1:]:
        digits = part.partition("]")[0][:8]
        if not is_digits(digits) or int(digits) not in settings.errnos:
            return None
        faults.append(known_faults.ERRNOS.get(int(digits), LISTED))
    return _all(faults) if faults else None


def dns(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    import socket

    return known_faults.DNS_TEMPORARY if get(error, "errno") == socket.EAI_AGAIN else known_faults.DNS_FINAL


def group(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    """Known if every leaf is: the failures of a host's several addresses, under a connect error."""
    # One group on the way down, not groups within the causes of its leaves: those could multiply.
    if depth >= _LEAF_DEPTH:
        return None
    faults = []
    for leaf in leaves(error, _MAX_ADDRESSES):
        fault = fault_of(leaf, settings, _LEAF_DEPTH)
        if fault is None:
            return None
        faults.append(fault)
    return _all(faults) if faults else None


def _all(faults: list[KnownFault]) -> KnownFault:
    """Retryable if every one is; then a timeout, or safe, only if every one is."""
    for fault in faults:
        if not fault.retry:
            return fault
    timeout = all(fault.kind == "timeout" for fault in faults)
    safe = all(fault.safe for fault in faults)
    return KnownFault(True, "timeout" if timeout else "transient", faults[0].reason, safe=safe)


def websocket_closed(error: object, settings: ClassifierSettings, depth: int) -> KnownFault:
    for name in ("rcvd", "sent"):
        code = whole(get(get(error, name), "code"))
        if code is not None:
            return known_faults.CLOSE_CODES.get(code, FINAL)
    return LOST


def websocket_message(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    """The answer to the handshake was cut short (transient), or was not HTTP (not transient)."""
    cause = get(error, "__cause__")
    return LOST if is_a(cause, EOFError) else under(error, (), settings, depth)


def grpc_error(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    name = get(called(error, "code"), "name")
    if not is_a(name, str):
        return None
    trailers = called(error, "trailing_metadata")
    hint = pushback(trailers)
    if hint is None:
        hint = retry_info(trailers)
    if isinstance(hint, Pushback):
        return KnownFault(False, "pushback", f"gRPC {name}, and the server says not to retry")
    if "CERTIFICATE_VERIFY_FAILED" in text_of(called(error, "details")):
        return known_faults.TLS
    if name == "DEADLINE_EXCEEDED" and get(error, known_faults.ATTEMPT_DEADLINE) is True:
        return KnownFault(True, "timeout", "gRPC DEADLINE_EXCEEDED of one attempt", safe=True, after=hint)
    if name not in settings.grpc_codes and (name not in known_faults.GRPC_PUSHBACK_CODES or hint is None):
        return KnownFault(False, "fatal", f"gRPC {name}", after=hint)
    return KnownFault(
        True, known_faults.GRPC_KINDS.get(name, "transient"), f"gRPC {name}", safe=True, after=hint
    )


# --- databases ------------------------------------------------------------------------------------


def postgres(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    for state in (get(error, "sqlstate"), get(error, "pgcode"), _state_of_class(error)):
        if is_a(state, str) and state:
            return known_faults.SQLSTATES.get(state, LISTED) if state in settings.sqlstates else None
    # A failed or lost connection has no SQLSTATE: libpq only explains it in words.
    text = text_of(error).lower()
    if any(phrase in text for phrase in known_faults.POSTGRES_NOT_READY):
        return NO_CONNECTION
    if any(phrase in text for phrase in known_faults.POSTGRES_REFUSALS):
        return None
    for phrases, fault in known_faults.POSTGRES_PHRASES:
        if any(phrase in text for phrase in phrases):
            return fault
    return None


def _state_of_class(error: object) -> str | None:
    return known_faults.SQLSTATE_OF_CLASS.get(type(error).__name__)


def sqlite(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    code = whole(get(error, "sqlite_errorcode"))
    if code is not None:
        return CONFLICT if code & 0xFF in known_faults.SQLITE_CODES else None
    text = text_of(error).lower()
    return CONFLICT if any(phrase in text for phrase in known_faults.SQLITE_PHRASES) else None


def mysql(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    number = whole(get(error, "errno"))
    if number is None:
        args = get(error, "args")
        number = whole(args[0]) if is_a(args, tuple) and args else None
    if number == 0 and type(error).__name__ == "InterfaceError":
        # PyMySQL and MySQLdb raise this on a connection that is closed already.
        return LOST
    if number not in settings.mysql_errors:
        return None
    return resolve(known_faults.MYSQL_ERRORS.get(number, LISTED), error, settings, depth)


def mysql_pool(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    return known_faults.BUSY if "pool exhausted" in text_of(error).lower() else None


def dbapi(error: object, settings: ClassifierSettings, depth: int) -> KnownFault | None:
    """SQLAlchemy: the driver's error, which an async dialect wraps once more."""
    driver = get(error, "orig")
    fault = fault_of(driver, settings, depth + 1) if is_a(driver, BaseException) else None
    if fault is None and driver is not None:
        fault = postgres(driver, settings, depth)
    if (fault is None or not fault.retry) and get(error, "connection_invalidated") is True:
        return LOST
    return fault
