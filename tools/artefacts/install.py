"""Installs a wheel in environments of its own and runs a small program there, away from the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

SMOKE = Path(__file__).parent / "smoke"
LIST = "import importlib.metadata as m; print(*sorted({d.name for d in m.distributions()}))"


def environment(folder: Path) -> Path:
    """The Python of a new, empty environment: not even pip is in it."""
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str) -> None:
    """Run this Python's pip on another environment. Ends the program when it fails."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        str(python),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def core(wheel: Path, folder: Path) -> Path:
    """An environment that holds the wheel and nothing else; the network is not asked."""
    python = environment(folder)
    pip(python, "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    return python


def extra(wheel: Path, name: str, folder: Path) -> Path:
    """An environment that holds the wheel and what one extra brings."""
    python = environment(folder)
    pip(python, "install", "--quiet", f"stormproof[{name}] @ {wheel.as_uri()}")
    pip(python, "check")
    return python


def distributions(python: Path) -> list[str]:
    """The names of everything that is installed there."""
    return _run([python, "-I", "-c", LIST], python.parent).split()


def smoke(python: Path, *program: str) -> str:
    """Run a program of ``smoke/`` in that environment and nowhere else; what it says it did."""
    empty = python.parent.parent / "elsewhere"
    empty.mkdir(exist_ok=True)
    return _run([python, "-I", "-W", "error", SMOKE / program[0], *program[1:]], empty).strip()


def command(python: Path, *arguments: str) -> tuple[int, str]:
    """The installed command ``stormproof``: its exit code and all that it said."""
    said = subprocess.run(
        [python.parent / "stormproof", *arguments],
        cwd=python.parent,
        env=_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return said.returncode, said.stdout


def _run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_environ(), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _environ() -> dict[str, str]:
    """The environment without what would lead Python to other code than the installed."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
