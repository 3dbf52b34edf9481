"""Which rules apply to which files: ``[tool.stormproof.lint]`` of pyproject.toml, and the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from .._config.errors import unknown
from .rules import BY_CODE, RULES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Never looked into when a folder is searched.
SKIPPED = (
    ".git", ".hg", ".tox", ".nox", ".venv", "venv", "__pycache__", "node_modules", "build", "dist",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".eggs",
)  # fmt: skip
_LISTS = ("select", "ignore", "exclude", "policy-files")
KEYS = (*_LISTS, "strict")


class SettingsError(ValueError):
    """Settings that make no sense; the message names the key, the value and the rule."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``select`` are the rules that apply; ``exclude`` and ``policy_files`` are patterns for paths.

    ``strict`` adds the findings that rest on a guess, such as a call named after a network.
    """

    select: frozenset[str] = field(default_factory=lambda: frozenset(r.code for r in RULES if r.default))
    exclude: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    strict: bool = False

    def excluded(self, path: str) -> bool:
        """Return True if ``path``, found in a folder, is left out: it or a folder it is in matches."""
        return any(fnmatch(path, pattern) or _inside(path, pattern) for pattern in self.exclude)

    def is_policy_file(self, path: str) -> bool:
        """Return True if ``path``, found in a folder, is read as a policy file."""
        name = path.rpartition("/")[2]
        stem, _, suffix = name.rpartition(".")
        if suffix not in ("toml", "json", "yaml", "yml"):
            return False
        return (
            stem == "stormproof"
            or stem.endswith(".stormproof")
            or any(fnmatch(path, p) for p in self.policy_files)
        )


def _inside(path: str, pattern: str) -> bool:
    folder = pattern.rstrip("/")
    return path.startswith(folder + "/") or f"/{folder}/" in f"/{path}"


def make(
    data: dict[str, Any], select: Iterable[str] = (), ignore: Iterable[str] = (), *, strict: bool = False
) -> Settings:
    """The settings of a ``[tool.stormproof.lint]`` table, with the command line's words on top.

    ``select`` replaces the rules that are on by default; "ALL" is every one of them. ``ignore`` takes
    rules away. Both accept a code or the beginning of codes ("SP00"). ``strict`` is on if either asks for it.
    """
    for key in data:
        if key not in KEYS:
            raise SettingsError(f"[tool.stormproof.lint]: {unknown('key', key, KEYS)}")
    lists = {key: _words(key, data.get(key, [])) for key in _LISTS}
    in_file = data.get("strict", False)
    if not isinstance(in_file, bool):
        raise SettingsError(f"[tool.stormproof.lint] strict: must be true or false, got {in_file!r}")
    chosen = list(select) or lists["select"]
    codes = _codes("select", chosen) if chosen else Settings().select
    codes -= _codes("ignore", [*lists["ignore"], *ignore])
    return Settings(codes, tuple(lists["exclude"]), tuple(lists["policy-files"]), strict or in_file)


def _words(key: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise SettingsError(f"[tool.stormproof.lint] {key}: must be a list of strings, got {value!r}")
    return value


def _codes(key: str, words: Iterable[str]) -> frozenset[str]:
    codes: set[str] = set()
    for word in (part.strip() for item in words for part in item.split(",")):
        matching = {code for code in BY_CODE if word == "ALL" or (word and code.startswith(word))}
        if not matching:
            raise SettingsError(f"{key}: {unknown('rule', word[:64], list(BY_CODE))}")
        codes |= matching
    return frozenset(codes)
