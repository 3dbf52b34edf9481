"""Finds and reads the files that lint looks at, and the settings that apply to them."""

from __future__ import annotations

import os

from ..lint.policyfile import SUFFIXES
from ..lint.settings import SKIPPED, Settings, SettingsError, make
from ._outcome import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def settings(config: str | None, select: list[str], ignore: list[str], *, strict: bool = False) -> Settings:
    """The settings of ``config`` (None: the nearest pyproject.toml upwards, if there is one)."""
    path = _nearest() if config is None else config
    try:
        return make({} if path is None else _table(path), select, ignore, strict=strict)
    except SettingsError as error:
        raise CommandError(f"lint: {error}") from None


def _nearest() -> str | None:
    from pathlib import Path

    folder = Path.cwd()
    paths = (above / "pyproject.toml" for above in (folder, *folder.parents))
    return next((str(path) for path in paths if path.is_file()), None)


def _table(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as stream:
            data = tomllib.load(stream)
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    for key in ("tool", "stormproof", "lint"):
        data = data.get(key, {})
        if not isinstance(data, dict):
            raise CommandError(f"{path}: {key} must be a table")
    return data


def files(paths: list[str], chosen: Settings) -> Iterator[str]:
    """Every file to look at, each once: those named, and those found in the folders named, in order."""
    seen: set[str] = set()
    for path in paths:
        if not os.path.exists(path):
            raise CommandError(f"{path}: no such file or folder")
    for path in paths:
        for file in _found(path, chosen) if os.path.isdir(path) else [path]:
            if (real := os.path.realpath(file)) not in seen:
                seen.add(real)
                yield file


def _found(folder: str, chosen: Settings) -> Iterator[str]:
    for home, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not chosen.excluded(_shown(home, f)))
        for name in sorted(names):
            path = _shown(home, name)
            wanted = name.endswith(".py") or chosen.is_policy_file(path)
            if wanted and not chosen.excluded(path):
                yield path


def _shown(home: str, name: str) -> str:
    return os.path.normpath(os.path.join(home, name)).replace(os.sep, "/")


def text_of(path: str) -> str:
    """The text of a file. Raises `OSError`, or `ValueError` for text in no known encoding."""
    with open(path, "rb") as stream:
        raw = stream.read()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        if path.lower().endswith(SUFFIXES):
            raise
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding)
    except (SyntaxError, LookupError) as error:
        raise ValueError(f"is in no known encoding: {error}") from None
