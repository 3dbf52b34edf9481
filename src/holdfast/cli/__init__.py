"""The ``holdfast`` command: one file per command, loaded when it is asked for.

Exit codes, the same for every command:

- 0: it ran, and the answer is good;
- 1: it ran, and the answer is a finding or a negative verdict, or it could not finish;
- 2: it was called in a way it does not understand, or a dependency is missing;
- 130: ended by Ctrl-C.

``app`` (the Typer application) is built on first use, so that this package can be
imported, and can say what is missing, without typer and rich.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OK, NEGATIVE, USAGE, INTERRUPTED = 0, 1, 2, 130

_NEEDED = ("typer", "rich")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. ``None`` means ``sys.argv``."""
    try:
        from holdfast.cli import _app

        return _app.run(sys.argv[1:] if argv is None else list(argv))
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in _NEEDED:
            raise
        print(f"holdfast: {name} is missing: install holdfast[cli]", file=sys.stderr)
        return USAGE


def __getattr__(name: str) -> Any:
    if name == "app":
        from holdfast.cli._app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
