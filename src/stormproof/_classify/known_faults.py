"""Known failures, as data: HTTP, network, gRPC, AWS, databases, exception names.

`NAMES` recognises exceptions and responses by top-level module and qualified name, so that no
library has to be imported to be understood. A row is a `KnownFault`, or the name of a function in
`fault_readers` that reads one from the object.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from .verdict import Verdict

    Kind = Literal["transient", "timeout", "throttle", "fatal", "pushback"]
    Row: TypeAlias = "KnownFault | str"


class KnownFault:
    """Meaning of an error, before the request's method is considered.

    ``safe``: even a POST may be sent again, because nothing was processed or because the library
    makes its calls safe to repeat.
    ``look``: attributes that may hold the error underneath, before its cause and its context; what
    is found there decides over this row. ``()`` looks at cause and context only, ``None`` nowhere.
    """

    __slots__ = ("after", "kind", "look", "reason", "retry", "safe", "verdict")

    def __init__(
        self,
        retry: bool,
        kind: Kind,
        reason: str,
        *,
        safe: bool = False,
        look: tuple[str, ...] | None = None,
        after: float | None = None,
    ) -> None:
        self.retry = retry
        self.kind: Kind = kind
        self.reason = reason
        self.safe = safe
        self.look = look
        self.after = after
        #: Made at first use and kept, since rows are shared and verdicts do not change.
        self.verdict: Verdict | None = None

    def looking(self, *names: str) -> KnownFault:
        """The same fault, with ``names`` as the places where a deeper one may be found."""
        return KnownFault(self.retry, self.kind, self.reason, safe=self.safe, look=names, after=self.after)


LOST = KnownFault(True, "transient", "connection lost")
NO_CONNECTION = KnownFault(True, "transient", "no connection", safe=True)
NO_STREAM = KnownFault(True, "transient", "HTTP/2 stream refused", safe=True)
TIMEOUT = KnownFault(True, "timeout", "timed out")
IN_PROGRESS = KnownFault(True, "transient", "the same key is in progress", safe=True)
NO_STORE = KnownFault(True, "transient", "the store did not answer", safe=True)
#: Of an SDK that makes its own calls safe to repeat, by keys or client tokens, and repeats them.
SDK_LOST = KnownFault(True, "transient", "connection lost", safe=True)
SDK_TIMEOUT = KnownFault(True, "timeout", "timed out", safe=True)
CONNECT_TIMEOUT = KnownFault(True, "timeout", "timed out before anything was sent", safe=True)
BUSY = KnownFault(True, "throttle", "busy", safe=True)
CONFLICT = KnownFault(True, "transient", "transaction conflict", safe=True)
DNS_TEMPORARY = KnownFault(True, "transient", "temporary DNS failure", safe=True)
DNS_FINAL = KnownFault(False, "fatal", "host name does not resolve")
TLS = KnownFault(False, "fatal", "TLS failure")
DENIED = KnownFault(False, "fatal", "credentials refused")
FINAL = KnownFault(False, "fatal", "not a transient error")
#: Reasons of faults of a connection that was lost, or never made.
NETWORK_REASONS = frozenset({LOST.reason, NO_CONNECTION.reason, DNS_TEMPORARY.reason})
#: For errors that a setting lists and no table here describes.
LISTED = KnownFault(True, "transient", "listed as transient")
RETRIED = KnownFault(False, "fatal", "already retried by the client library")

# --- HTTP -----------------------------------------------------------------------------------------

STATUSES = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505, 506, 508, 510, 511}
#: RFC 9113, 8.7: of a stream reset with this code nothing was processed.
REFUSED_STREAM = 0x7
#: Not even when the server says ``x-should-retry: true``: new credentials are another request.
NEVER = frozenset({401, 403})
#: Answers that say the request was not processed.
UNPROCESSED = frozenset({425, 429})
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
KEY_HEADERS = frozenset({"idempotency-key", "x-idempotency-key"})

# --- network --------------------------------------------------------------------------------------

_UNSENT_ERRNOS = "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN ENONET"
_LOST_ERRNOS = "ECONNRESET ECONNABORTED EPIPE ESHUTDOWN ENETRESET ENOTCONN"


def _errnos(names: str, fault: KnownFault) -> dict[int, KnownFault]:
    # Windows numbers its socket errors apart, under names of their own.
    spelt = [prefixed for name in names.split() for prefixed in (name, "WSA" + name)]
    return {getattr(errno, name): fault for name in spelt if hasattr(errno, name)}


ERRNOS: dict[int, KnownFault] = {
    **_errnos(_UNSENT_ERRNOS, NO_CONNECTION),
    **_errnos(_LOST_ERRNOS, LOST),
    **_errnos("ETIMEDOUT", TIMEOUT),
}

#: WebSocket close codes after which a new connection may do better.
CLOSE_CODES: dict[int, KnownFault] = {
    **dict.fromkeys((1001, 1005, 1006, 1011, 1012, 1014), LOST),
    1013: KnownFault(True, "throttle", "the peer asks to try again later"),
    1015: TLS,
}

# --- gRPC -----------------------------------------------------------------------------------------

GRPC_NAMES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE "
    "DATA_LOSS UNAUTHENTICATED"
).split()
GRPC_CODES = frozenset({"UNAVAILABLE"})
#: Worth retrying when the server names a time to come back.
GRPC_PUSHBACK_CODES = frozenset({"RESOURCE_EXHAUSTED"})
#: The wider list in common use: for calls whose deadline is one attempt's, and that are safe to repeat.
GRPC_WIDE = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"})

#: Set on the error of a call by the client whose `Timeout` cut the attempt: there may be time for another.
ATTEMPT_DEADLINE = "__stormproof_attempt_deadline__"
GRPC_KINDS: dict[str, Kind] = {"RESOURCE_EXHAUSTED": "throttle", "DEADLINE_EXCEEDED": "timeout"}

# --- AWS ------------------------------------------------------------------------------------------


def _kinds(codes: str, kind: Kind) -> dict[str, Kind]:
    return dict.fromkeys(codes.split(), kind)


_AWS_THROTTLES = (
    "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException "
    "TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException "
    "RequestLimitExceeded BandwidthLimitExceeded LimitExceededException SlowDown "
    "PriorRequestNotComplete EC2ThrottledException"
)
#: Error codes that decide, not the HTTP status: throttling is often a 400.
AWS_CODES: dict[str, Kind] = {
    **_kinds(_AWS_THROTTLES, "throttle"),
    **_kinds("RequestTimeout RequestTimeoutException IDPCommunicationError", "transient"),
}

# --- databases ------------------------------------------------------------------------------------

SQLSTATES: dict[str, KnownFault] = {
    **dict.fromkeys(("08000", "08003", "08006", "57P01", "57P02", "57P05"), LOST),
    **dict.fromkeys(("08001", "57P03"), NO_CONNECTION),
    **dict.fromkeys(("40001", "40P01", "55P03"), CONFLICT),
    "53300": BUSY,
}
#: psycopg2 leaves ``pgcode`` empty on errors that no server sent; then the class decides.
SQLSTATE_OF_CLASS = {
    "SerializationFailure": "40001",
    "DeadlockDetected": "40P01",
    "LockNotAvailable": "55P03",
    "TooManyConnections": "53300",
    "AdminShutdown": "57P01",
    "CrashShutdown": "57P02",
    "CannotConnectNow": "57P03",
    "IdleSessionTimeout": "57P05",
    "ConnectionException": "08000",
    "SqlclientUnableToEstablishSqlconnection": "08001",
    "ConnectionDoesNotExist": "08003",
    "ConnectionFailure": "08006",
}
MYSQL_ERRORS: dict[int, KnownFault] = {
    1040: BUSY,  # too many connections
    1053: LOST,  # server shutdown in progress
    1158: LOST,  # network read error
    1159: TIMEOUT,  # network read interrupted
    1160: LOST,  # network write error
    1161: TIMEOUT,  # network write interrupted
    1203: BUSY,  # too many connections of this user
    1205: CONFLICT,  # lock wait timeout
    1213: CONFLICT,  # deadlock
    1927: LOST,  # connection killed
    2002: NO_CONNECTION.looking("original_exception"),  # socket
    2003: NO_CONNECTION.looking("original_exception"),  # host
    2006: LOST,  # server has gone away
    2013: LOST,  # during a query
    2055: LOST,  # during a read or write
    3101: CONFLICT,  # rolled back by group replication
    3572: CONFLICT,  # lock not available, NOWAIT
    4031: LOST,  # idle for too long
}
#: SQLITE_BUSY and SQLITE_LOCKED, in the low byte of the extended code.
SQLITE_CODES = frozenset({5, 6})
SQLITE_PHRASES = ("database is locked", "table is locked", "schema is locked")

#: Messages of libpq and its drivers when the server is there but not ready; they begin with "FATAL:".
POSTGRES_NOT_READY = (
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is in recovery mode",
    "the database system is not yet accepting connections",
    "terminating connection due to administrator command",
    "too many clients already",
    "remaining connection slots are reserved",
)
#: Words that end the matter: the server answered and refused, or its certificate was.
POSTGRES_REFUSALS = ("fatal:", "certificate")
POSTGRES_PHRASES: tuple[tuple[tuple[str, ...], KnownFault], ...] = (
    (
        (
            "connection refused",
            "could not connect to server",
            "network is unreachable",
            "no route to host",
            "temporary failure in name resolution",
            "is the server running",
        ),
        NO_CONNECTION,
    ),
    (("timeout expired", "connection timed out", "connection timeout"), CONNECT_TIMEOUT),
    (
        (
            "server closed the connection unexpectedly",
            "connection reset by peer",
            "connection has been closed unexpectedly",
            "could not receive data from server",
            "could not send data to server",
            "connection not open",
            "connection already closed",
            "connection is closed",
            "connection is lost",
            "connection was closed",
            "broken pipe",
        ),
        LOST,
    ),
)

#: openai: a 429 that no waiting mends.
OUT_OF_QUOTA = "insufficient_quota"
# --- LLM SDKs -------------------------------------------------------------------------------------

#: Error types that arrive inside a stream whose HTTP status was already 200.
STREAM_ERRORS = frozenset(
    "overloaded_error api_error rate_limit_error timeout_error server_error rate_limit_exceeded".split()
)

# --- exceptions and responses by name -------------------------------------------------------------


def _same(names: str, row: Row) -> dict[str, Row]:
    return dict.fromkeys(names.split(), row)


_HTTPCORE: dict[str, Row] = {
    **_same("ReadError WriteError CloseError NetworkError", LOST.looking("args")),
    **_same("RemoteProtocolError LocalProtocolError", "http2"),
    **_same("ReadTimeout WriteTimeout TimeoutException", TIMEOUT),
    **_same("ConnectTimeout PoolTimeout", CONNECT_TIMEOUT),
    **_same("ConnectError ConnectionNotAvailable", NO_CONNECTION.looking("args")),
    **_same("ProtocolError UnsupportedProtocol", FINAL),
    "ProxyError": "proxy",
}
_HTTPX: dict[str, Row] = {
    **_HTTPCORE,
    **_same("HTTPError DecodingError TooManyRedirects", FINAL),
    "HTTPStatusError": "http_error",
    "Response": "http_response",
}
_REDIS: dict[str, Row] = {
    **_same("RedisError ValkeyError", FINAL),
    **_same("AuthenticationError AuthorizationError ExternalAuthProviderError", DENIED),
    "ConnectionError": LOST.looking(),
    "TimeoutError": TIMEOUT,
    **_same("BusyLoadingError TryAgainError ClusterDownError MasterDownError", BUSY),
    "MaxConnectionsError": BUSY,
}
_SDK: dict[str, Row] = {
    **_same("OpenAIError AnthropicError APIResponseValidationError", FINAL),
    "APIStatusError": "sdk_status",
    "APIError": "sdk_stream",
    "APIConnectionError": SDK_LOST.looking(),
    "APITimeoutError": SDK_TIMEOUT,
}
_MYSQL: dict[str, Row] = {"MySQLError": "mysql", "Error": "mysql"}

NAMES: dict[str, dict[str, Row]] = {
    "builtins": {
        "TimeoutError": TIMEOUT,
        "ConnectionRefusedError": NO_CONNECTION,
        "ConnectionError": LOST,
        "OSError": "os_error",
        "ExceptionGroup": "group",
    },
    "stormproof": {
        "AttemptTimeout": TIMEOUT,
        "StormproofError": FINAL,
        "IdempotencyConflict": IN_PROGRESS,
        "StoreUnavailable": NO_STORE,
        "Permanent": FINAL,
    },
    "socket": {"gaierror": "dns", "herror": DNS_FINAL},
    "ssl": {**_same("SSLEOFError SSLZeroReturnError SSLSyscallError", LOST), "SSLError": TLS},
    "asyncio": {"IncompleteReadError": LOST},
    "trio": {"TooSlowError": TIMEOUT, "BrokenResourceError": LOST},
    "anyio": {"BrokenResourceError": LOST, "EndOfStream": LOST},
    "http": {
        **_same("RemoteDisconnected IncompleteRead BadStatusLine", LOST),
        **_same("HTTPException LineTooLong", FINAL),
        "HTTPResponse": "http_response",
    },
    "urllib": {
        "HTTPError": "http_error",
        "ContentTooShortError": LOST,
        "URLError": FINAL.looking("reason"),
    },
    "urllib3": {
        "HTTPError": FINAL,
        **_same("ProtocolError IncompleteRead InvalidChunkLength", LOST.looking("args")),
        **_same("TimeoutError ReadTimeoutError", TIMEOUT),
        "ConnectTimeoutError": CONNECT_TIMEOUT,
        "NewConnectionError": NO_CONNECTION.looking(),
        "NameResolutionError": DNS_FINAL.looking("_reason"),
        "EmptyPoolError": CONNECT_TIMEOUT,
        "SSLError": TLS.looking("args"),
        "ProxyError": NO_CONNECTION.looking("original_error"),
        "MaxRetryError": LOST.looking("reason"),
        "ResponseError": RETRIED,
        **_same("BaseHTTPResponse HTTPResponse", "http_response"),
    },
    "requests": {
        "RequestException": FINAL,
        "HTTPError": "http_error",
        **_same("ConnectionError ChunkedEncodingError", LOST.looking("args")),
        "ProxyError": NO_CONNECTION.looking("args"),
        "SSLError": TLS.looking("args"),
        **_same("Timeout ReadTimeout", TIMEOUT),
        "ConnectTimeout": CONNECT_TIMEOUT,
        "RetryError": RETRIED,
        "Response": "http_response",
    },
    "httpcore": _HTTPCORE,
    "httpcore2": _HTTPCORE,
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "aiohttp": {
        "ClientError": FINAL,
        "ClientResponseError": "aiohttp_error",
        "ClientHttpProxyError": "aiohttp_proxy",
        "HttpProcessingError": LOST,
        "ClientConnectionError": LOST.looking(),
        **_same("ClientConnectionResetError ServerDisconnectedError", LOST),
        "ClientPayloadError": LOST.looking(),
        "ContentEncodingError": FINAL,
        "ClientOSError": "os_error",
        "ClientConnectorError": NO_CONNECTION.looking("os_error"),
        "ClientConnectorDNSError": DNS_FINAL.looking("os_error"),
        "ClientSSLError": TLS.looking("os_error"),
        **_same("ClientConnectorCertificateError ServerFingerprintMismatch", TLS),
        **_same("ServerTimeoutError SocketTimeoutError", TIMEOUT),
        "ConnectionTimeoutError": CONNECT_TIMEOUT,
        **_same("InvalidURL NonHttpUrlClientError RedirectClientError", FINAL),
        "ClientResponse": "http_response",
    },
    "websockets": {
        "WebSocketException": FINAL,
        "ConnectionClosed": "websocket_closed",
        "InvalidStatus": "http_error",
        "InvalidMessage": "websocket_message",
    },
    "botocore": {
        "ClientError": "aws",
        "HTTPClientError": SDK_LOST.looking("kwargs"),
        "ReadTimeoutError": SDK_TIMEOUT,
        "ConnectTimeoutError": CONNECT_TIMEOUT,
        **_same("ConnectionError EndpointConnectionError", NO_CONNECTION.looking("kwargs")),
        "ProxyConnectionError": NO_CONNECTION.looking("kwargs"),
        "SSLError": TLS.looking("kwargs"),
        **_same("IncompleteReadError ResponseStreamingError", SDK_LOST),
    },
    "grpc": {"RpcError": "grpc_error"},
    "openai": _SDK,
    "anthropic": _SDK,
    "redis": _REDIS,
    "valkey": _REDIS,
    "psycopg": {"Error": "postgres", "ConnectionTimeout": CONNECT_TIMEOUT},
    "psycopg_pool": {"PoolTimeout": CONNECT_TIMEOUT, "TooManyRequests": BUSY},
    "psycopg2": {"Error": "postgres"},
    "asyncpg": {"PostgresError": "postgres", "InterfaceError": "postgres"},
    "sqlite3": {"Error": FINAL, "OperationalError": "sqlite"},
    "pymysql": _MYSQL,
    "MySQLdb": _MYSQL,
    "mysql": {
        "Error": "mysql",
        "PoolError": "mysql_pool",
        "ConnectionTimeoutError": CONNECT_TIMEOUT,
        **_same("ReadTimeoutError WriteTimeoutError", TIMEOUT),
    },
    "sqlalchemy": {
        "SQLAlchemyError": FINAL,
        "DBAPIError": "dbapi",
        "TimeoutError": CONNECT_TIMEOUT,
        "DisconnectionError": LOST,
    },
}
