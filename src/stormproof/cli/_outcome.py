"""End of a command: its errors as one line on stderr, and its exit code."""

from __future__ import annotations

import io
import os
import sys

from ._exit_codes import FAILED, INTERRUPTED, OK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class CommandError(Exception):
    """A command could not do its work: shown as one line, exit code 2. Code 1 is a verdict's alone."""


def ending(run: Callable[[], object]) -> int:
    """The exit code of ``run()``, which returns one (None: 0) or raises."""
    _prepare_output()
    try:
        result = run()
        # Now, and not at exit, where the cause could not be reported.
        sys.stdout.flush()
    except CommandError as problem:
        return complain(str(problem), FAILED)
    except KeyboardInterrupt:
        result = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone.
        _drop_output()
        return FAILED
    except OSError as problem:
        _drop_output()
        where = "" if problem.filename is None else f"{problem.filename}: "
        return complain(f"{where}{problem.strerror or str(problem) or type(problem).__name__}", FAILED)
    # Ctrl-C arrives here as this code or as an exception, depending on typer's release.
    if result == INTERRUPTED:
        return complain("stopped", INTERRUPTED)
    return result if isinstance(result, int) else OK


def _prepare_output() -> None:
    """Let nothing that is printed fail for its letters, or for want of a place (``stormproof ... >&-``)."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard what is still buffered, which must not fail again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        # It has no descriptor: a caller's own object.
        pass


def complain(message: str, code: int) -> int:
    """Say ``message`` as one line on stderr and give ``code`` back."""
    if sys.stderr is not None:
        try:
            print("stormproof: " + " ".join(message.split()), file=sys.stderr)
        except OSError:
            # Nowhere left to say it; the code still does.
            pass
    return code
