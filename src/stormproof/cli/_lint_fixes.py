"""``stormproof lint --fix`` and ``--diff``."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

from ._exit_codes import FAILED, NEGATIVE, OK
from ._outcome import CommandError, print_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def rewrite(paths: list[str], exclude: list[str], config: str | None, *, write: bool) -> int:
    """Rewrite the Python files in ``paths``, or print the difference; return the exit code."""
    from . import _lint_files

    try:
        from ..lint.fixes import fix, reached_into
    except ModuleNotFoundError as missing:
        if missing.name != "libcst":
            raise
        raise CommandError("lint: --fix and --diff need libcst: pip install 'stormproof[lint]'") from None
    chosen = _lint_files.settings(config, [], [])
    chosen = replace(chosen, exclude=(*chosen.exclude, *exclude))
    sources, problems = _read(_lint_files.files(paths or ["."], chosen))
    used_names = {name for text in sources.values() for name in reached_into(text.decode(errors="replace"))}
    changed = 0
    for path, before in sources.items():
        try:
            after = fix(before, used_names)
        except Exception as error:
            # A file that libcst cannot parse is left as it is.
            print_error(f"{path}: {str(error).partition(chr(10))[0]}", FAILED)
            problems += 1
            continue
        if after == before:
            continue
        changed += 1
        if write:
            Path(path).write_bytes(after)
            print(f"rewritten: {path}")
        else:
            _show(path, before, after)
    print(f"{changed} file{'' if changed == 1 else 's'} {'rewritten' if write else 'would be rewritten'}")
    return FAILED if problems else NEGATIVE if changed and not write else OK


def _read(paths: Iterable[str]) -> tuple[dict[str, bytes], int]:
    """Return the Python files among ``paths`` with their bytes, and how many cannot be read."""
    sources, unread = {}, 0
    for path in paths:
        if path.endswith((".py", ".pyi")):
            try:
                sources[path] = Path(path).read_bytes()
            except OSError as error:
                print_error(f"{path}: {error.strerror or error}", FAILED)
                unread += 1
    return sources, unread


def _show(path: str, before: bytes, after: bytes) -> None:
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    for line in difflib.unified_diff(old, new, path, path, lineterm=""):
        print(line)
