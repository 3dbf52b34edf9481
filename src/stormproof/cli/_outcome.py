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


def exit_code_of(run: Callable[[], object]) -> int:
    """Return the exit code of ``run()``, which returns one (None: 0) or raises."""
    _prepare_output()
    try:
        result = run()
        # A failure to write must show here: at exit it could not be reported.
        sys.stdout.flush()
    except CommandError as problem:
        return print_error(str(problem), FAILED)
    except KeyboardInterrupt:
        result = INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it.
        _drop_output()
        return FAILED
    except OSError as problem:
        _drop_output()
        where = "" if problem.filename is None else f"{problem.filename}: "
        return print_error(f"{where}{problem.strerror or str(problem) or type(problem).__name__}", FAILED)
    # Ctrl-C arrives here as this code or as an exception, depending on typer's release.
    if result == INTERRUPTED:
        return print_error("stopped", INTERRUPTED)
    return result if isinstance(result, int) else OK


def _prepare_output() -> None:
    """Make printing succeed whatever the encoding, and where stdout is closed (``stormproof ... >&-``)."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard buffered output, which must not fail again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        # It has no descriptor: a caller's own object.
        pass


def print_json(data: object) -> None:
    """Print ``data`` as JSON for people and programs."""
    import json

    print(json.dumps(data, indent=2))


def print_error(message: str, code: int) -> int:
    """Print ``message`` as one line on stderr and return ``code``."""
    if sys.stderr is not None:
        try:
            print("stormproof: " + " ".join(message.split()), file=sys.stderr)
        except OSError:
            # Stderr is closed: only the exit code is left.
            pass
    return code
