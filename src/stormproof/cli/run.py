"""``stormproof run``: any command under a retry policy.

The command's failure is an exception, judged by the policy's ``on``; the loop is the library's own.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from ._exit_codes import INTERRUPTED, NEGATIVE, OK
from ._options import Option
from ._outcome import CommandError
from ._run_policy import JITTERS, Failed, exit_codes, make_policy, pattern
from ._style import in_units
from ._values import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._run_child import Bell, Child, Terminal

#: The last attempt was cut off by ``--timeout`` or ``--deadline``, as timeout(1) has it.
CUT_OFF = 124
#: Passed on, and the end of retrying.
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
#: Passed on; retrying goes on.
FORWARDED = ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGTSTP")

OPTIONS = (
    Option(
        "attempts",
        "How often at most, the first time included; none: until --deadline.",
        "--attempts",
        default="4",
    ),
    Option(
        "base", "The first wait's ceiling; each further one is twice the last.", "--base", default="100ms"
    ),
    Option("cap", "No ceiling is higher.", "--cap", default="5s"),
    Option(
        "jitter", "full, equal, none or decorrelated.", "--jitter", default="full", complete=lambda: JITTERS
    ),
    Option("deadline", "Total time, waits included.", "--deadline", metavar="DURATION"),
    Option(
        "timeout",
        "Time of one attempt; then its whole process group is ended.",
        "--timeout",
        metavar="DURATION",
    ),
    Option("grace", "From SIGTERM to SIGKILL when an attempt is cut off.", "--grace", default="2s"),
    Option(
        "on_exit",
        "Retry on these exit codes alone, such as 1,75,100-110.",
        "--on-exit",
        kind="many",
        metavar="CODES",
    ),
    Option(
        "on_output", "Retry when the output matches, whatever the exit code.", "--on-output", metavar="REGEX"
    ),
    Option("seed", "Makes the waits repeatable.", "--seed", metavar="NUMBER"),
    Option("quiet", "Say nothing on stderr.", "--quiet", kind="flag"),
    Option(
        "as_json", "A report as the last line on stderr, in place of the messages.", "--json", kind="flag"
    ),
    Option("argv", "The command and its arguments.", kind="rest", metavar="CMD"),
)


def command(argv: list[str], **options: Any) -> int:
    """Run a command; when it fails, run it again, with backoff, jitter and a deadline.

    Ends with the command's own exit code: 128 + n if signal n ended it, 127 for an unknown command,
    126 if it cannot be run, 124 if the last attempt was cut off, 1 if it ended with 0 but its output still
    matched.
    Signals go to the command's process group; INT, TERM, HUP and QUIT end retrying too.
    What an attempt read from a pipe is gone for the next one; a file on stdin is rewound.
    """
    if os.name != "posix":
        raise CommandError("run: needs POSIX process groups and signals")
    if not argv:
        raise CommandError("run: there must be a command after --")
    return Session(argv, **options).run()


class Session:
    """One ``stormproof run``: its options checked, its attempts counted."""

    def __init__(
        self,
        argv: list[str],
        *,
        on_exit: list[str],
        on_output: str | None,
        grace: str,
        quiet: bool,
        as_json: bool,
        **policy: Any,
    ) -> None:
        self.argv = argv
        self.codes = exit_codes(on_exit)
        self.pattern = pattern(on_output)
        self.grace_s = duration("--grace", grace) or 0.0
        self.quiet = quiet or as_json
        self.as_json = as_json
        self.policy = make_policy(**policy)
        self.attempts: list[dict[str, Any]] = []
        self.child: Child | None = None
        self.ended_by: int | None = None
        self.scope: Any = None
        self.stdin_at = _stdin_offset()
        #: Signals received while there was no child; the next child gets them.
        self.held_back: list[int] = []
        #: The command may run already, and is not known yet.
        self.starting = False

    def run(self) -> int:
        """Every attempt, and the exit code to end with."""
        import stormproof as sp

        from . import _run_child

        bell, terminal = _run_child.Bell(), _run_child.Terminal()
        numbers = [n for name in (*ENDING, *FORWARDED) if (n := getattr(signal, name, None)) is not None]
        stop = sp.subscribe(self._announce)
        why = ""
        try:
            with sp.deadline(None, "run") as self.scope, _run_child.handling(numbers, self._signalled):
                self.policy.call(self._attempt, bell, terminal)
        except Failed:
            pass
        except sp.StormproofError as error:
            why = self._reason(error)
        except _run_child.CannotStart as error:
            self.attempts.append({"exit": error.code, "seconds": 0.0})
            why = str(error)
        finally:
            stop()
            bell.close()
        return self._report(why)

    def _attempt(self, bell: Bell, terminal: Terminal) -> None:
        from .._context.deadlines import check, remaining
        from .._primitives.errors import AttemptTimeout
        from . import _run_child, _run_output

        self._rewind()
        tee = None if self.pattern is None else _run_output.Tee(self.pattern)
        began = time.monotonic()
        self.starting = True
        try:
            self.child = child = _run_child.Child(self.argv, bell, terminal, tee)
        finally:
            self.starting = False
        record: dict[str, Any] = {"exit": None, "seconds": 0.0}
        self.attempts.append(record)
        for number in self.held_back:
            child.stop() if number == signal.SIGTSTP else child.signal(number)
        self.held_back.clear()
        try:
            code = child.wait(remaining())
            if code is None:
                child.end(self.grace_s)
                check()
                raise AttemptTimeout("the attempt's time is over")
            record["exit"] = code
        finally:
            self.child = None
            record["seconds"] = time.monotonic() - began
        matched = tee is not None and tee.matches()
        if matched:
            record["matched"] = True
        if code != OK or matched:
            raise Failed(code, self._is_retryable(code, matched))

    def _is_retryable(self, code: int, matched: bool) -> bool:
        if self.ended_by is not None:
            return False
        if matched or self.codes is not None:
            return matched or code in (self.codes or ())
        # Ctrl-C goes to the command alone when it has the terminal: pressing it never asks for another try.
        return self.pattern is None and code not in (INTERRUPTED, 128 + signal.SIGQUIT)

    def _signalled(self, number: int, frame: object) -> None:
        child = self.child
        if number == signal.SIGTSTP and not self.starting:
            if child is None:
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                child.stop()
            return
        if signal.Signals(number).name in ENDING:
            self.ended_by = number
            self.scope.cancel()
        if child is not None:
            child.signal(number)
        elif number not in self.held_back:
            self.held_back.append(number)

    def _rewind(self) -> None:
        if self.attempts and self.stdin_at is not None:
            os.lseek(0, self.stdin_at, os.SEEK_SET)

    def _announce(self, event: Any) -> None:
        if type(event).__name__ == "Retrying":
            self.attempts[-1]["wait"] = event.wait
            pipe = len(self.attempts) == 1 and self.stdin_at is None and not os.isatty(0)
            lost = "; what it read from the pipe on stdin is gone" if pipe and _stdin_is_pipe() else ""
            self._say(
                f"attempt {event.attempt} {_ended(self.attempts[-1])}; again in {in_units(event.wait)}{lost}"
            )

    def _reason(self, error: Exception) -> str:
        """Why the loop ended before its attempts were used up."""
        if self.ended_by is not None:
            return f"stopped by {signal.Signals(self.ended_by).name}"
        cut = not self.attempts or self.attempts[-1]["exit"] is None
        if type(error).__name__ == "DeadlineExceeded":
            return "the deadline has passed" if cut else "another wait would pass the deadline"
        return ""

    def _report(self, why: str) -> int:
        last = self.attempts[-1] if self.attempts else {"exit": None, "seconds": 0.0}
        code = CUT_OFF if last["exit"] is None else int(last["exit"])
        if self.ended_by is not None and ("wait" in last or last["exit"] is None):
            code = 128 + self.ended_by
        elif code == OK and last.get("matched"):
            code = NEGATIVE
        if code != OK or len(self.attempts) > 1:
            tries = f"{len(self.attempts)} attempt{'' if len(self.attempts) == 1 else 's'}"
            outcome = "succeeded" if code == OK else f"gave up with exit code {code}"
            self._say(f"{outcome} after {tries}" + (f": {why}" if why else f", the last {_ended(last)}"))
        if self.as_json:
            self._print_report(code, why)
        return code

    def _print_report(self, code: int, why: str) -> None:
        import json

        ended_by = None if self.ended_by is None else signal.Signals(self.ended_by).name
        report = {"exit": code, "attempts": self.attempts, "signal": ended_by, "reason": why or None}
        print(json.dumps(report), file=sys.stderr)

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(f"stormproof: {text}", file=sys.stderr, flush=True)


def _stdin_offset() -> int | None:
    """Return where a file on stdin begins for the command; ``None`` if stdin cannot be rewound."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return None


def _stdin_is_pipe() -> bool:
    import stat

    mode = os.fstat(0).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _ended(record: dict[str, Any]) -> str:
    took = f"after {record['seconds']:.2f} s"
    code = record["exit"]
    if code is None:
        return f"was cut off {took}"
    if code > 128 and code - 128 in signal.valid_signals():
        return f"was ended by {signal.Signals(code - 128).name} {took}"
    matched = ", its output matched," if record.get("matched") else ""
    return f"ended with exit code {code}{matched} {took}"
