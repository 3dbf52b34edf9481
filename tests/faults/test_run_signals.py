"""``stormproof run`` under real signals and timeouts: passed on, obeyed at once, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stormproof import cli

pytestmark = [
    pytest.mark.usefixtures("watchdog"),
    pytest.mark.skipif(os.name != "posix", reason="other platform: signals"),
]

SOURCE = str(Path(cli.__file__).parents[2])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}

#: Says when it is ready, and every signal it gets; TERM ends it with 7 by default.
CHILD = """
import os, signal, sys, time
def on_signal(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(7)
for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT", "SIGUSR1", "SIGUSR2"):
    signal.signal(getattr(signal, name), on_signal)
print("ready", os.getpid(), os.getpgrp() == os.getpid(), flush=True)
# Since 3.14 a signal just before a sleep is handled when the sleep ends: short ones, many times.
for _ in range(3000):
    time.sleep(0.02)
"""


@contextlib.contextmanager
def started(*argv: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "stormproof.cli", "run", *argv],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Under nohup this signal is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - one call
    )
    try:
        yield process
    finally:
        kill_with_command(process)
        process.communicate()


def kill_with_command(process: subprocess.Popen[Any]) -> None:
    """Kill ``stormproof run`` if it still runs, and the command that it runs in a group of its own."""
    if process.poll() is not None:
        return
    with contextlib.suppress(OSError):
        commands = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in commands:
            os.killpg(int(pid), signal.SIGKILL)
    process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().strip()


def gone(pid: int) -> bool:
    """Return True if ``pid`` no longer runs; one that is dead and not collected counts as gone."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat", "rb") as stream:
                if stream.read().rpartition(b")")[2].split()[0] in (b"Z", b"X"):
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_signal_reaches_the_command_and_ends_retrying_if_it_ends_the_command() -> None:
    with started("--", sys.executable, "-c", CHILD) as process:
        word, pid, leads = line(process).split()
        assert (word, leads) == ("ready", "True"), "it has a process group of its own"
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            process.send_signal(number)
            assert line(process) == number.name
        process.send_signal(signal.SIGTERM)
        assert line(process) == "SIGTERM"
        assert process.wait(20) == 7, "its own code"
        assert "gave up with exit code 7 after 1 attempt" in said(process)
        assert gone(int(pid))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_every_signal_reaches_the_command(number: signal.Signals) -> None:
    with started("--", sys.executable, "-c", CHILD) as process:
        line(process)
        process.send_signal(number)
        assert line(process) == number.name
        process.send_signal(signal.SIGTERM)
        assert line(process) == "SIGTERM"
        assert process.wait(20) == 7
        assert said(process).startswith("stormproof: gave up with exit code 7 after 1 attempt")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_a_wait_at_once(number: signal.Signals) -> None:
    with started("--base", "1h", "--cap", "1h", "--jitter", "none", "--", "false") as process:
        assert "again in 60 min" in said(process)
        process.send_signal(number)
        # A signal that comes on the way into the wait is noticed a second later.
        assert process.wait(20) == 128 + number
        assert f"stopped by {number.name}" in said(process)


def test_command_that_dies_of_the_signal_is_not_retried(tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/runs; echo ready; exec sleep 60"
    with started("--base", "1ms", "--", "sh", "-c", script) as process:
        assert line(process) == "ready"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert (tmp_path / "runs").read_text() == "x\n"


def test_signal_that_was_ignored_stays_ignored() -> None:
    # As under nohup.
    script = (
        f"trap '' HUP; exec {sys.executable} -m stormproof.cli run -- sh -c 'echo ready; read x; echo $x'"
    )
    process = subprocess.Popen(
        ["sh", "-c", script], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert line(process) == "ready"
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate("still here\n", timeout=20)
        assert (process.returncode, out) == (0, "still here\n")
    finally:
        kill_with_command(process)
        process.communicate()


def test_parent_that_ignores_its_children_does_not_hide_a_failure() -> None:
    # What is ignored stays so across exec; children are then collected by the kernel, codes and all.
    script = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, '-m', 'stormproof.cli', *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", script, "run", "--attempts", "1", "--", "sh", "-c", "exit 5"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=20, check=False)
    assert done.returncode == 5


def test_timeout_ends_the_whole_process_group_and_is_retried(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! >> {tmp_path}/pids; echo $$ >> {tmp_path}/pids; wait"
    with started(
        "--attempts", "2", "--base", "1ms", "--timeout", "300ms", "--", "sh", "-c", script
    ) as process:
        assert process.wait(20) == 124
        assert "attempt 1 was cut off" in said(process)
        assert said(process).startswith("stormproof: gave up with exit code 124 after 2 attempts")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4 and all(gone(pid) for pid in pids)


def test_command_that_ignores_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; for i in $(seq 400); do sleep 0.05; done"
    options = ("--attempts", "1", "--timeout", "300ms", "--grace", "200ms")
    with started(*options, "--", "sh", "-c", script) as process:
        assert process.wait(20) == 124
    assert gone(int((tmp_path / "pid").read_text()))


def test_command_that_cleans_up_has_the_grace_to_finish(tmp_path: Path) -> None:
    clean = f"trap 'sleep 0.3; echo clean > {tmp_path}/state; exit 0' TERM"
    script = f"{clean}; for i in $(seq 400); do sleep 0.05; done"
    with started(
        "--attempts", "1", "--timeout", "300ms", "--grace", "10s", "--", "sh", "-c", script
    ) as process:
        assert process.wait(20) == 124
    assert (tmp_path / "state").read_text() == "clean\n"


def test_deadline_cuts_off_the_running_attempt(tmp_path: Path) -> None:
    script = f"echo $$ >> {tmp_path}/pid; sleep 60"
    with started("--deadline", "300ms", "--", "sh", "-c", script) as process:
        assert process.wait(20) == 124
        assert "the deadline has passed" in said(process)
    (pid,) = (tmp_path / "pid").read_text().split()
    assert gone(int(pid))


class Terminal:
    """``stormproof run`` as the foreground job of a terminal of its own."""

    def __init__(self, *argv: str) -> None:
        # Their end stays open here too: a terminal without an open end reads as broken.
        self.fd, self._theirs = pty.openpty()
        # The leader of a new session gets the first terminal that it opens as its own.
        opens = 'exec "$@" < {0} > {0} 2>&1'.format(os.ttyname(self._theirs))
        self._process = subprocess.Popen(
            ["sh", "-c", opens, "sh", sys.executable, "-m", "stormproof.cli", "run", *argv],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.seen = ""

    def until(self, text: str) -> None:
        """Read until ``text`` has been written."""
        end = time.monotonic() + 20
        while text not in self.seen:
            assert select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0], self.seen
            self.seen += os.read(self.fd, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def code(self) -> int:
        return self._process.wait(20)

    def close(self) -> None:
        kill_with_command(self._process)
        self._process.wait(20)
        os.close(self._theirs)
        os.close(self.fd)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    made: list[Terminal] = []
    yield made
    for terminal in made:
        terminal.close()


def test_run_command_reads_and_writes_the_terminal(terminals: list[Terminal]) -> None:
    script = "[ -t 0 ] && [ -t 1 ] && echo a terminal; read x; echo got $x; exit 3"
    terminals.append(terminal := Terminal("--attempts", "2", "--base", "1ms", "--", "sh", "-c", script))
    terminal.until("a terminal")
    terminal.type("one\n")
    terminal.until("got one")
    terminal.type("two\n")
    terminal.until("got two")
    terminal.until("gave up with exit code 3 after 2 attempts")
    assert terminal.code() == 3


def test_ctrl_c_on_the_terminal_ends_the_command(terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal("--base", "1ms", "--", "sh", "-c", "echo ready; exec sleep 60"))
    terminal.until("ready")
    terminal.type("\x03")
    assert terminal.code() == 130


def test_ctrl_c_during_the_wait_ends_the_run(terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal("--base", "1h", "--cap", "1h", "--jitter", "none", "--", "false"))
    terminal.until("again in")
    terminal.type("\x03")
    assert terminal.code() == 130


def test_ctrl_z_stops_both_and_fg_goes_on(terminals: list[Terminal]) -> None:
    # It reads first, so that it is sure to have the terminal when the key is pressed.
    script = "read x; echo ready; read x; echo got $x"
    terminals.append(terminal := Terminal("--", "sh", "-c", script))
    terminal.type("go\n")
    terminal.until("ready")
    terminal.type("\x1a")
    _, status = os.waitpid(terminal.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "a shell would have its prompt back"
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.type("hello\n")
    terminal.until("got hello")
    assert terminal.code() == 0


@pytest.mark.parametrize("waiting", [False, True])
def test_stop_from_elsewhere_stops_both(waiting: bool) -> None:
    rest = ("--base", "1h", "--cap", "1h", "--", "false") if waiting else ("--", sys.executable, "-c", CHILD)
    with started(*rest) as process:
        pid = int(line(process).split()[1]) if not waiting else 0
        if waiting:
            said(process)
        process.send_signal(signal.SIGTSTP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        if pid:
            with open(f"/proc/{pid}/stat", "rb") as stream:
                assert stream.read().rpartition(b")")[2].split()[0] == b"T"
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == (128 + signal.SIGTERM if waiting else 7)
