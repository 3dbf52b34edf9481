"""Imports that need an extra: the error for a missing library says how to install it."""

from __future__ import annotations


class extra:  # noqa: N801 - reads as a keyword: with extra("httpx"): import httpx
    """Context in which a door imports its library. ``name`` is that of the door and of the extra alike."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        if isinstance(error, ModuleNotFoundError):
            hint = f"stormproof.{self._name} needs it: pip install 'stormproof[{self._name}]'"
            error.msg = f"{error.msg}; {hint}"
