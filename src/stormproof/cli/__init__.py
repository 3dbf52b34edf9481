"""The ``stormproof`` command: one file per command, loaded when it is asked for.

Exit codes, the same for every command:

- 0: it ran, and the answer is good;
- 1: it ran, and the answer is a finding or a negative verdict;
- 2: it could not run: called wrongly, or a file, an input or a dependency is broken or missing;
- 130: ended by Ctrl-C.

``run`` ends with its command's own code instead, and adds a few of its own; see there.

Every command keeps its options in a table (see `_options`), and a plain command line starts without
typer. ``app`` (the Typer application) is built on first use, for help, completions and errors.
"""

from __future__ import annotations

import os
import sys

from ._exit_codes import FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_NEEDED = ("typer", "rich")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. ``None`` means ``sys.argv``."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run_plain_line(words)
        if code is not None:
            return code
        from . import _app

        return _app.run(words)
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in _NEEDED:
            raise
        print(f"stormproof: {name} is missing: install stormproof[cli]", file=sys.stderr)
        return FAILED


def _run_plain_line(words: list[str]) -> int | None:
    """Run a plain command line and return its exit code; ``None`` leaves it to typer."""
    from ._options import COMMANDS, parse

    if not words or words[0] not in COMMANDS or "_STORMPROOF_COMPLETE" in os.environ:
        return None
    from importlib import import_module

    from ._outcome import exit_code_of

    module = import_module(f"stormproof.cli.{words[0]}")
    given = parse(module.OPTIONS, words[1:])
    return None if given is None else exit_code_of(lambda: module.command(**given))


def __getattr__(name: str) -> Any:
    if name == "app":
        from ._app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
