"""The few private names of httpx's that are used, and of what has its API: nowhere else.

Each has a public way beside it for a release without that name, and is here because the public way costs
more than all the rest of a request that succeeds, or because there is none.
"""

from __future__ import annotations

from .headers import announced, has_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    import httpx

    #: (name, name in lower case, value).
    Entries = list[tuple[bytes, bytes, bytes]]


def has_header(headers: httpx.Headers, names: frozenset[str | bytes]) -> bool:
    """Return True if a field of these names, in lower case, has a value."""
    entries: Entries | None = getattr(headers, "_list", None)
    if entries is None:
        return has_field(headers.raw, names)
    for entry in entries:  # noqa: SIM110 - a generator would take longer than the loop
        if entry[1] in names and entry[2]:
            return True
    return False


def content_length(headers: httpx.Headers) -> int:
    """The Content-Length of a response; 0 if it does not announce one."""
    entries: Entries | None = getattr(headers, "_list", None)
    if entries is None:
        return announced(headers.raw) or 0
    for _, name, value in entries:
        if name == b"content-length":
            # Of bytes, only ASCII digits are digits: `length_of`, without the call.
            return int(value) if len(value) < 19 and value.isdigit() else 0
    return 0


def with_fields(headers: httpx.Headers, fields: dict[str, str]) -> httpx.Headers:
    """A copy of ``headers`` with ``fields`` set."""
    entries: Entries | None = getattr(headers, "_list", None)
    if entries is None:
        copy = type(headers)(headers)
        copy.update(fields)
        return copy
    copy = object.__new__(type(headers))
    copy.__dict__.update(headers.__dict__)
    copy._list = entries = entries.copy()
    for name, value in fields.items():
        raw = name.encode()
        lower = raw.lower()
        for entry in entries:
            if entry[1] == lower:
                copy[name] = value
                break
        else:
            entries.append((raw, lower, value.encode()))
    return copy


def content_in_memory(request: httpx.Request) -> bytes:
    """The body of a request whose stream is whole in memory."""
    content: bytes = getattr(request, "_content", b"")
    return content


def given_stream(stream: object) -> object:
    """The iterable or file that the user gave, inside the stream that httpx made of it."""
    return getattr(stream, "_stream", stream)


def clone(request: httpx.Request) -> httpx.Request:
    """A request with the attributes of ``request``: to build one anew costs as much as a whole policy."""
    copy = object.__new__(type(request))
    copy.__dict__.update(request.__dict__)
    return copy
