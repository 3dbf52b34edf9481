"""How a command ends: its errors as one line on stderr, and its exit code."""

from __future__ import annotations

import os
import sys

from holdfast.cli import INTERRUPTED, NEGATIVE, OK, USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class CommandError(Exception):
    """A command could not do its work: shown as one line, exit code 1."""

    code = NEGATIVE


class UsageError(CommandError):
    """The command was asked for something that makes no sense: one line, exit code 2."""

    code = USAGE


def ending(run: Callable[[], object]) -> int:
    """The exit code of ``run()``, which returns one (None: 0) or raises."""
    try:
        result = run()
    except CommandError as problem:
        return complain(str(problem), problem.code)
    except KeyboardInterrupt:
        result = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; what is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NEGATIVE
    # Ctrl-C arrives here as this code or as an exception, depending on typer's release.
    if result == INTERRUPTED:
        return complain("stopped", INTERRUPTED)
    return result if isinstance(result, int) else OK


def complain(message: str, code: int) -> int:
    """Say ``message`` as one line on stderr and give ``code`` back."""
    print("holdfast: " + " ".join(message.split()), file=sys.stderr)
    return code
