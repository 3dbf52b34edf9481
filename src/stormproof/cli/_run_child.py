"""One attempt of ``stormproof run``: a process group of its own, waited for, signalled and ended as a
whole."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ._run_output import Tee

#: Interval at which a group that is ending is looked at.
_LOOK_S = 0.02
#: As `waitpid` has it: exit code 255.
_UNKNOWN = 255 << 8


class CannotStart(Exception):
    """The command could not be started; ``code`` is a shell's exit code for that: 127 or 126."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Bell:
    """A pipe that wakes `wait`: rung by the thread that waits for the child, and by every signal.

    ``signal.set_wakeup_fd`` makes signals ring it, so that none is missed on the way into the wait.
    """

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)

    def ring(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._in, b"\0")

    def wait(self, seconds: float | None) -> None:
        """Wait until it rings, at most ``seconds`` (None: no limit)."""
        select.select([self._out], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._out, 4096)

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self._out)
        os.close(self._in)


class Terminal:
    """The controlling terminal, lent to the child's group while it runs; nothing when there is none."""

    def __init__(self) -> None:
        self._fd: int | None = None
        with contextlib.suppress(OSError):
            if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
                self._fd = 0

    @property
    def ours(self) -> bool:
        return self._fd is not None

    def give(self, group: int) -> None:
        """Make ``group`` the foreground group."""
        if self._fd is None:
            return
        # In the background, asking would stop this process.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._fd, group)
        finally:
            signal.signal(signal.SIGTTOU, before)

    def take(self) -> None:
        """Make the group of this process the foreground group again."""
        self.give(os.getpgrp())


class Child:
    """The running command. ``status`` is the result of ``waitpid`` at its end."""

    def __init__(self, argv: Sequence[str], bell: Bell, terminal: Terminal, tee: Tee | None) -> None:
        self._terminal = terminal
        self._bell = bell
        try:
            process = subprocess.Popen(
                argv,
                process_group=0,
                stdout=None if tee is None else subprocess.PIPE,
                stderr=None if tee is None else subprocess.PIPE,
            )
        except FileNotFoundError:
            raise CannotStart(f"{argv[0]}: command not found", 127) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CannotStart(f"{argv[0]}: {reason}", 126) from None
        self._process = process
        self.group = process.pid
        self.stopped = False
        #: True if this process stops when the command does: it shares the terminal, or was stopped from here.
        self._together = terminal.ours
        terminal.give(self.group)
        if terminal.ours:
            # It may have asked for the terminal before it had it, and stopped over that.
            self.signal(signal.SIGCONT)
        self._ended: int | None = None
        self._watch = threading.Thread(target=self._wait, daemon=True)
        self._watch.start()
        if tee is not None:
            assert process.stdout is not None
            assert process.stderr is not None
            tee.follow(process.stdout.fileno(), process.stderr.fileno())
            process.stdout.close()
            process.stderr.close()

    def _wait(self) -> None:
        """Record, in a thread of its own, that the child stops or ends."""
        while True:
            try:
                _, status = os.waitpid(self.group, os.WUNTRACED)
            except ChildProcessError:
                # Another thread has collected it, and its exit code with it.
                status = _UNKNOWN
            if os.WIFSTOPPED(status):
                self.stopped = True
                self._bell.ring()
                continue
            self._ended = status
            self._bell.ring()
            return

    def signal(self, number: int) -> None:
        """Send ``number`` to the whole group; a group that has ended is ignored."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def stop(self) -> None:
        """Stop the group; ``wait`` then stops this process too, until it is continued."""
        self._together = True
        self.signal(signal.SIGTSTP)

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code, 128 + n if signal n ended it; ``None`` if ``seconds`` passed first."""
        end = None if seconds is None else time.monotonic() + seconds
        while self._ended is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            if self.stopped:
                self._stop_with_it()
            else:
                self._bell.wait(left)
        self.close()
        code = os.waitstatus_to_exitcode(self._ended)
        # Popen did not see the end itself; informed, it does not complain about a child left behind.
        self._process.returncode = code
        return code if code >= 0 else 128 - code

    def _stop_with_it(self) -> None:
        """The child was stopped (Ctrl-Z): stop too, so that the shell has its prompt; go on together."""
        self.stopped = False
        if not self._together:
            return
        self._together = self._terminal.ours
        self._terminal.take()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.give(self.group)
        self.signal(signal.SIGCONT)

    def end(self, grace_s: float) -> None:
        """End the whole group: SIGTERM, then SIGKILL for the rest of it after ``grace_s`` seconds."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        limit = time.monotonic() + grace_s
        while self._alive() and time.monotonic() < limit:
            self._bell.wait(_LOOK_S)
        self.signal(signal.SIGKILL)
        self.wait(None)

    def _alive(self) -> bool:
        if self._ended is None:
            return True
        try:
            os.killpg(self.group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return _any_working(self.group)

    def close(self) -> None:
        self._watch.join()
        self._terminal.take()


def _any_working(group: int) -> bool:
    """Return True if ``group`` holds more than dead processes not collected yet.

    Where the first process of a container collects none, those would look alive for ever. True
    without a /proc to look at.
    """
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                # After the name in parentheses, which may hold anything: state, parent, group.
                state, _, of = stream.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(of) == group and state not in (b"Z", b"X"):
            return True
    return False


@contextlib.contextmanager
def handling(numbers: Sequence[int], handle: object) -> Iterator[None]:
    """Let ``handle(number, frame)`` have these signals inside; one that was ignored before stays ignored."""
    # Where it is ignored, as a parent may have left it, no process can wait for a child.
    before: dict[int, Any] = {signal.SIGCHLD: signal.signal(signal.SIGCHLD, signal.SIG_DFL)}
    try:
        for number in numbers:
            former = signal.getsignal(number)
            if former is not signal.SIG_IGN:
                before[number] = former
                signal.signal(number, handle)  # type: ignore[arg-type]
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)
