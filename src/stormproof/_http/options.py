"""The options of an HTTP client, the same for every library."""

from __future__ import annotations

from .._classify.settings import ClassifierSettings
from .._primitives.options import Options, choice, count, flag, hook
from .headers import header_name, header_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any, Literal

    from .draft import Draft

    #: Makes the idempotency key of a request; ``None`` leaves the request without one.
    MakeKey = Callable[[Any], str | None]
    #: Renews credentials on the draft after the response it is given; ``False``: nothing to renew.
    Reauth = Callable[[Draft, Any], Awaitable[bool | None] | bool | None]

#: Request headers that one origin must not learn about another.
CREDENTIALS = frozenset(
    {
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-auth-token",
        "x-amz-security-token",
        "x-goog-api-key",
    }
)

_MIB = 2**20


class ClientOptions(Options):
    """Options of an HTTP client beside its policy.

    ``idempotency_key``: ``"auto"`` gives every request whose method is not safe to repeat a fresh key,
    the same on all its attempts; a callable makes it from the request; ``None`` leaves it to the
    caller. A key that the request already has is kept, also one that it got when it was sent before.
    ``key_header`` is the header's name.
    ``buffer``: a response that announces at most this many bytes is read within the attempt; 0 reads none.
    ``replay``: request bodies longer than this are sent once; 0 sends every body once, ``None`` has no limit.
    ``drain``: how many bytes of an unwanted answer are read to keep its connection in use; 0 closes it.
    ``statuses``, ``methods``: what is worth retrying and safe to repeat, instead of the policy's own tables.
    ``reauth(draft, response)`` runs at most once per request, on a status in ``reauth_on``.
    ``timeout_header`` carries the milliseconds left, ``attempt_header`` the attempt's number
    from the second on; ``None`` sends neither. ``credentials`` are the headers never sent to another origin.
    """

    def __init__(
        self,
        idempotency_key: str | MakeKey | None = None,
        key_header: str = "Idempotency-Key",
        buffer: int = 65536,
        replay: int | None = 16 * _MIB,
        drain: int = 65536,
        statuses: Iterable[int] | None = None,
        methods: Iterable[str] | None = None,
        reauth: Reauth | None = None,
        reauth_on: Iterable[int] = (401,),
        timeout_header: str | None = "X-Request-Timeout-Ms",
        attempt_header: str | None = "X-Request-Attempt",
        credentials: Iterable[str] = CREDENTIALS,
    ) -> None:
        owner = "ClientOptions"
        if idempotency_key is not None and not callable(idempotency_key):
            # One fixed key for a whole client would make the server take every request for the first one.
            choice(owner, "idempotency_key", idempotency_key, ("auto",))
        self.idempotency_key = idempotency_key
        self.key_header: str = header_name(owner, "key_header", key_header)
        self.buffer = count(owner, "buffer", buffer, least=0)
        self.replay = None if replay is None else count(owner, "replay", replay, least=0)
        self.drain = count(owner, "drain", drain, least=0)
        self.statuses = None if statuses is None else _table("statuses", "statuses", statuses)
        self.methods = None if methods is None else _table("methods", "methods", methods)
        self.reauth = hook(owner, "reauth", reauth)
        self.reauth_on: frozenset[int] = _table("reauth_on", "statuses", reauth_on)
        self.timeout_header = (
            None if timeout_header is None else header_name(owner, "timeout_header", timeout_header)
        )
        self.attempt_header = (
            None if attempt_header is None else header_name(owner, "attempt_header", attempt_header)
        )
        self.credentials = header_set(owner, "credentials", credentials)

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> ClientOptions:
        """The options of ours among ``options``, out of which they are taken."""
        return cls(**{name: options.pop(name) for name in cls.field_names() if name in options})


def _table(field: str, table: Literal["statuses", "methods"], values: Iterable[Any]) -> Any:
    """``values`` as a classifier checks its ``table``; errors name the option they were given for."""
    try:
        return getattr(ClassifierSettings(**{table: values}), table)
    except (TypeError, ValueError) as error:
        message = str(error).replace(f"Classifier: {table}", f"ClientOptions: {field}", 1)
        raise type(error)(message) from None


class RequestOverrides:
    """Options of one request: the policy, the key, whether to retry. ``ABSENT``: not given."""

    __slots__ = ("key", "policy", "retry")

    def __init__(self, given: Mapping[str, Any]) -> None:
        if not hasattr(given, "keys"):
            raise TypeError(
                "stormproof: what a request says must be a mapping such as {'retry': False}, "
                f"got a {type(given).__name__}"
            )
        unknown = set(given) - {"policy", "idempotency_key", "retry"}
        if unknown:
            raise TypeError(
                f"stormproof: a request has no option {min(map(str, unknown))!r}; "
                "it has policy, idempotency_key, retry"
            )
        self.policy = given.get("policy")
        self.key: object = given.get("idempotency_key", ABSENT)
        self.retry = flag("stormproof", "retry", given.get("retry", True))
        if self.policy is not None and not hasattr(self.policy, "strategies"):
            raise TypeError(f"stormproof: policy must be a Policy, got {self.policy!r}")
        if self.key is not ABSENT and self.key is not None and not callable(self.key):
            key_value("idempotency_key", self.key)


ABSENT = object()


def key_value(field: str, value: object) -> str:
    """``value`` if it can stand in a header: 1 to 255 printable ASCII characters.

    The value itself is not in the error: a key may be a secret, and may be long.
    """
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 255
        or not (value.isascii() and value.isprintable())
    ):
        got = f"{len(value)}, or others" if isinstance(value, str) else f"a {type(value).__name__}"
        raise ValueError(f"stormproof: {field} must be 1 to 255 printable ASCII characters, got {got}")
    return value
