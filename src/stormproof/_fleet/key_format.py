"""Keys: ``prefix:{name}:kind``, one hash tag a resource, so that a cluster keeps what belongs together.

Names come from users. One that is plain stays readable; any other is hashed, so that no name can be
mistaken for another, break out of its hash tag, or be as long as it likes.
"""

from __future__ import annotations

from hashlib import blake2b

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/")
_LONGEST = 100
#: Begins a hashed name, and no plain one.
_HASHED = "~"


def prefix_of(prefix: object) -> str:
    """``prefix`` if keys may begin with it."""
    if not isinstance(prefix, str):
        raise TypeError(f"RedisStore: prefix must be a string, got {prefix!r}")
    if not 0 < len(prefix) <= 64 or not _PLAIN.issuperset(prefix.replace(":", "")):
        rule = "must be 1 to 64 letters, digits and any of _ . - / :"
        raise ValueError(f"RedisStore: prefix {rule}, got {prefix!r}")
    return prefix


def tag_of(name: str) -> str:
    """``name`` as it stands in a key."""
    if 0 < len(name) <= _LONGEST and _PLAIN.issuperset(name):
        return name
    return _HASHED + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def key_of(prefix: str, kind: str, name: str) -> str:
    """The key of a resource."""
    return f"{prefix}:{{{tag_of(name)}}}:{kind}"


def parts_of(prefix: str, key: str) -> tuple[str, str] | None:
    """Return (name as it stands in the key, kind), or ``None`` for a key of another program."""
    head, tail = f"{prefix}:{{", key.rpartition("}:")
    if not key.startswith(head) or not tail[1]:
        return None
    return tail[0][len(head) :], tail[2]
