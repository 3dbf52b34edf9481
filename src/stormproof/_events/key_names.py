"""Names of a ``keyed``'s objects: one resource per key, one name for all of them in metrics."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable


#: Separates a name from the hash of a key; below, the number of the hash's digits.
_OF_KEY, _DIGITS = "/key-", 32


def of_key(name: str | None, key: str | None) -> str | None:
    """``name`` with ``key``, a `key_text`, for which a ``keyed`` makes a copy; "" is none.

    Hashed: a key is made from a call's arguments, and names appear in events, errors and metrics.
    """
    if key is None:
        raise TypeError(
            "keyed: with a store, a key must be a string, bytes, a number, None or a tuple of these"
        )
    if not key:
        return name
    from hashlib import blake2b

    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_DIGITS // 2)
    return f"{name}{_OF_KEY}{digest.hexdigest()}"


def without_key(name: str) -> str:
    """Undo `of_key`: return the name that all keys share."""
    family, digest = name[: -len(_OF_KEY) - _DIGITS], name[-_DIGITS:]
    plain = name[len(family) : -_DIGITS] == _OF_KEY and set(digest) <= set("0123456789abcdef")
    return family if plain else name


def key_text(key: Hashable) -> str | None:
    """Return ``key`` as all processes write it; ``None`` if another process may write it differently."""
    if isinstance(key, str):
        return f"s{key}"
    if isinstance(key, (int, float, bytes)) or key is None:
        return repr(key)
    if not isinstance(key, tuple):
        return None
    parts = [key_text(part) for part in key]
    return None if None in parts else "".join(f"{len(part)}:{part}" for part in parts if part is not None)
