"""``stormproof run``: real commands, retried by the library's own loop; exit codes, output, stdin,
reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stormproof import cli
from stormproof.cli._run_policy import exit_codes, make_policy

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other platform: process groups")

SOURCE = str(Path(cli.__file__).parents[2])
QUICK = ("--base", "1ms", "--cap", "2ms")


def run(
    *argv: str, cwd: Path, stdin: Any = subprocess.DEVNULL, **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stormproof.cli", "run", *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE},
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
        **({"input": more["input"]} if "input" in more else {"stdin": stdin}),
    )


def fails(times: int, code: int = 3) -> list[str]:
    """A command that fails ``times`` times, then succeeds; each run adds a line to ``runs``."""
    return ["sh", "-c", f"echo x >> runs; [ $(wc -l < runs) -gt {times} ] || exit {code}"]


def runs(folder: Path) -> int:
    file = folder / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return data


def test_success_is_silent_and_runs_once(tmp_path: Path) -> None:
    done = run("--", "sh", "-c", "echo x >> runs; echo out; echo err >&2", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr, runs(tmp_path)) == (0, "out\n", "err\n", 1)


def test_failure_is_retried_until_success(tmp_path: Path) -> None:
    done = run(*QUICK, "--", *fails(2), cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (0, 3)
    first, second, last = done.stderr.splitlines()
    assert first.startswith("stormproof: attempt 1 ended with exit code 3 after ") and "; again in " in first
    assert second.startswith("stormproof: attempt 2 ")
    assert last.startswith("stormproof: succeeded after 3 attempts")


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_attempts_count_the_first_and_the_code_is_the_commands_own(attempts: int, tmp_path: Path) -> None:
    done = run(*QUICK, "--attempts", str(attempts), "--", *fails(99, code=42), cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (42, attempts)
    assert "gave up with exit code 42" in done.stderr


@pytest.mark.parametrize(
    ("codes", "code", "expected"),
    [
        (["3"], 3, 2),
        (["4"], 3, 1),
        (["1,3"], 3, 2),
        (["1", "3"], 3, 2),
        (["2-4"], 3, 2),
        (["4-9"], 3, 1),
    ],
)
def test_only_the_chosen_codes_are_retried(
    codes: list[str], code: int, expected: int, tmp_path: Path
) -> None:
    options = [word for text in codes for word in ("--on-exit", text)]
    done = run(*QUICK, "--attempts", "2", *options, "--", *fails(99, code), cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (code, expected)


def test_exit_codes_may_be_ranges() -> None:
    assert exit_codes([]) is None
    assert exit_codes(["1,75", "100-102"]) == {1, 75, 100, 101, 102}
    assert exit_codes(["255"]) == {255}


def test_matching_output_is_retried_for_any_exit_code(tmp_path: Path) -> None:
    script = "echo x >> runs; if [ $(wc -l < runs) -gt 1 ]; then echo fine; else echo server busy >&2; fi"
    done = run(*QUICK, "--on-output", "^server (busy|down)$", "--", "sh", "-c", script, cwd=tmp_path)
    assert (done.returncode, runs(tmp_path), done.stdout) == (0, 2, "fine\n")
    assert done.stderr.startswith("server busy\n"), "the output is passed on"
    assert "its output matched" in done.stderr


def test_without_a_match_an_output_rule_retries_nothing(tmp_path: Path) -> None:
    done = run(*QUICK, "--on-output", "busy", "--", *fails(99), cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (3, 1)
    done = run(
        *QUICK, "--on-output", "busy", "--on-exit", "3", "--attempts", "2", "--", *fails(99), cwd=tmp_path
    )
    assert (done.returncode, runs(tmp_path)) == (3, 3), "either of the two is enough"


def test_output_that_matches_to_the_end_exits_1(tmp_path: Path) -> None:
    done = run(*QUICK, "--attempts", "2", "--on-output", "busy", "--", "echo", "busy", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "busy\nbusy\n")


def test_long_output_is_passed_on_and_its_end_is_searched(tmp_path: Path) -> None:
    script = "import sys; print('é' * 300_000); print('at last')"
    done = run("--attempts", "1", "--on-output", "at last$", "--", sys.executable, "-c", script, cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == "é" * 300_000 + "\nat last\n"


def test_process_left_behind_does_not_hold_up_the_end(tmp_path: Path) -> None:
    script = f"sleep 30 & echo $! > {tmp_path}/pid; echo done"
    command = [sys.executable, "-m", "stormproof.cli", "run", "--on-output", "x", "--", "sh", "-c", script]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(command, env=environment, stdout=out, stderr=out, timeout=20, check=False)
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert (done.returncode, (tmp_path / "out").read_text()) == (0, "done\n")


def test_command_that_cannot_be_run_exits_by_shell_conventions(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("hello")
    done = run("--", "no-such-command-here", cwd=tmp_path)
    assert done.returncode == 127 and "no-such-command-here: command not found" in done.stderr
    assert done.stderr.count("\n") == 1, "it is not tried again"
    done = run("--", "./plain.txt", cwd=tmp_path)
    assert done.returncode == 126 and "Permission denied" in done.stderr


def test_command_ended_by_a_signal_is_retried_unless_interrupted(tmp_path: Path) -> None:
    done = run(*QUICK, "--attempts", "2", "--", "sh", "-c", "echo x >> runs; kill -KILL $$", cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (137, 2)
    assert "was ended by SIGKILL" in done.stderr
    done = run(*QUICK, "--", "sh", "-c", "echo x >> again; kill -INT $$", cwd=tmp_path)
    assert done.returncode == 130, "Ctrl-C ends the command, without a retry"
    assert (tmp_path / "again").read_text() == "x\n"


def test_deadline_ends_the_loop_with_the_commands_own_code(tmp_path: Path) -> None:
    options = (
        "--attempts",
        "none",
        "--deadline",
        "300ms",
        "--base",
        "10s",
        "--cap",
        "10s",
        "--jitter",
        "none",
    )
    done = run(*options, "--", *fails(99), cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (3, 1)
    assert "another wait would pass the deadline" in done.stderr


def test_deadline_of_zero_runs_nothing(tmp_path: Path) -> None:
    done = run("--deadline", "0", "--", *fails(0), cwd=tmp_path)
    assert (done.returncode, runs(tmp_path)) == (124, 0)


def test_report_is_written_as_json(tmp_path: Path) -> None:
    done = run("--base", "8ms", "--jitter", "none", "--json", "--", *fails(1), cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    data = report(done)
    assert data["exit"] == 0 and data["signal"] is None and data["reason"] is None
    assert [attempt["exit"] for attempt in data["attempts"]] == [3, 0]
    assert data["attempts"][0]["wait"] == 0.008 and "wait" not in data["attempts"][1]


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    done = run(*QUICK, "--quiet", "--attempts", "2", "--", *fails(99), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")


def test_waits_are_the_librarys_own_and_repeatable(tmp_path: Path) -> None:
    import stormproof as sp

    def waits(*options: str) -> list[float]:
        done = run(
            "--base", "4ms", "--cap", "9ms", "--seed", "7", "--json", *options, "--", "false", cwd=tmp_path
        )
        return [attempt["wait"] for attempt in report(done)["attempts"][:-1]]

    for jitter in ("full", "equal", "none"):
        expected = sp.Exponential(0.004, cap=0.009, jitter=jitter).delays(seed=7)  # type: ignore[arg-type]
        assert waits("--jitter", jitter) == [next(expected) for _ in range(3)]
    expected = sp.Decorrelated(0.004, cap=0.009).delays(seed=7)
    assert waits("--jitter", "decorrelated") == [next(expected) for _ in range(3)]


def test_run_uses_a_policy_of_one_plain_retry() -> None:
    policy = make_policy("4", "100ms", "5s", "full", "9s", "1s", None)
    assert [type(strategy).__name__ for strategy in policy.strategies] == ["Deadline", "Retry", "Timeout"]
    assert policy.strategies[1].budget is None and policy.strategies[1].attempts == 4
    # For the next test in this process that makes a policy of this name.
    assert policy.name == "run"


def test_pipe_on_stdin_that_cannot_be_reread_is_reported_once(tmp_path: Path) -> None:
    done = run(*QUICK, "--attempts", "3", "--", "sh", "-c", "cat; exit 1", cwd=tmp_path, input="hello\n")
    assert done.stdout == "hello\n"
    assert done.stderr.count("what it read from the pipe on stdin is gone") == 1


def test_file_on_stdin_is_rewound(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("skipped\nhello\n")
    with (tmp_path / "in").open() as file:
        os.lseek(file.fileno(), len("skipped\n"), os.SEEK_SET)
        done = run(*QUICK, "--attempts", "3", "--", "sh", "-c", "cat; exit 1", cwd=tmp_path, stdin=file)
    assert done.stdout == "hello\n" * 3
    assert "is gone" not in done.stderr


def test_arguments_reach_the_command_as_they_are(tmp_path: Path) -> None:
    words = ["--attempts", "a b", "", "$HOME", "*", "--", "-x"]
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    done = run("--", sys.executable, "-c", script, *words, cwd=tmp_path)
    assert json.loads(done.stdout) == words
    done = run(sys.executable, "-c", script, *words, cwd=tmp_path)
    assert json.loads(done.stdout) == words, "the -- may be left out"
