"""Which keys are accepted, and under which name a store keeps them. Pure."""

from __future__ import annotations

from hashlib import sha256

MAX_KEY = 255
#: A scope is made by the service (a tenant, a function's name), not by its callers.
MAX_SCOPE = 1024


def text(owner: str, field: str, value: object, *, most: int = MAX_KEY, empty: bool = False) -> str:
    """``value`` if it is a string of at most ``most`` printable characters, else an error.

    The value itself is not in the error: a key may be a secret, and may be long.
    """
    if not isinstance(value, str):
        raise TypeError(f"{owner}: {field} must be a string, got {type(value).__name__}")
    if not value and not empty:
        raise ValueError(f"{owner}: {field} must not be empty")
    if len(value) > most:
        raise ValueError(f"{owner}: {field} must have at most {most} characters, got {len(value)}")
    if not value.isprintable():
        raise ValueError(f"{owner}: {field} must hold printable characters only")
    return value


def digest(scope: str, key: str) -> bytes:
    """Return the 32 bytes that a store keeps in place of the key, different for every pair of scope and key.

    The length in front keeps apart what only looks alike when joined: ("ab", "c") and ("a", "bc").
    """
    prefix = scope.encode()
    return sha256(len(prefix).to_bytes(8, "big") + prefix + key.encode()).digest()


def client(scope: str) -> bytes:
    """A short name for whose keys those of ``scope`` are."""
    return sha256(scope.encode()).digest()[:16]


def fingerprint(*parts: bytes) -> str:
    """One hexadecimal digest of ``parts``, each with its length, so that no two lists look alike."""
    whole = sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()


def new_owner() -> str:
    """Return a unique, unguessable name for one run."""
    from os import urandom

    return urandom(16).hex()
