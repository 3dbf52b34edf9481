"""A command's table of options: read fast and by typer, both ways to the same values."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from stormproof import cli
from stormproof.cli import run
from stormproof.cli._options import COMMANDS, Option, for_typer, parse

SOURCE = str(Path(cli.__file__).parents[2])
TABLE = (
    Option("target", "What.", metavar="TARGET"),
    Option("more", "More.", kind="many", metavar="[MORE]..."),
    Option("limit", "How long.", "--limit", metavar="DURATION"),
    Option("mode", "Which.", "--mode", default="slow"),
    Option("codes", "Which ones.", "--code", kind="many"),
    Option("loud", "Whether.", "--loud", kind="flag"),
)
RUNNER = (
    Option("base", "Base.", "--base", default="1s"),
    Option("loud", "Whether.", "--loud", kind="flag"),
    Option("argv", "The command.", kind="rest", metavar="-- CMD..."),
)


def typed(table: tuple[Option, ...], argv: list[str], *, interspersed: bool = True) -> dict[str, Any]:
    """The values as typer hands them over."""
    import typer
    import typer.main

    seen: dict[str, Any] = {}

    def command(**given: Any) -> None:
        """Help."""
        seen.update(given)

    app = typer.Typer(add_completion=False)
    app.command("x", context_settings={"allow_interspersed_args": interspersed})(for_typer(table, command))
    typer.main.get_command(app).main(args=argv, prog_name="x", standalone_mode=False)
    return seen


PLAIN = [
    ["t"],
    ["t", "a", "b"],
    ["--limit", "2s", "t"],
    ["t", "--limit=2s", "--loud", "m"],
    ["t", "--mode", "fast", "--code", "1", "--code=2"],
    ["--loud", "--", "--limit", "x"],
    ["t", "-"],
    ["t", "--limit="],
    ["t", "", "b"],
]


@pytest.mark.parametrize("argv", PLAIN, ids=" ".join)
def test_fast_parser_and_typer_give_the_same_values(argv: list[str]) -> None:
    assert parse(TABLE, argv) == typed(TABLE, argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["ls"],
        ["--base", "2s", "ls", "-l"],
        ["--loud", "--", "ls", "--base", "x"],
        ["ls", "--loud"],
        ["--", "ls", "--", "x"],
    ],
    ids=" ".join,
)
def test_words_after_a_commands_name_belong_to_that_command(argv: list[str]) -> None:
    assert parse(RUNNER, argv) == typed(RUNNER, argv, interspersed=False)


def test_short_command_lines_are_parsed_alike_or_left_to_typer() -> None:
    import typer

    usage = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    words = ["t", "--limit", "--limit=2", "--loud", "--loud=1", "--nothing", "--", "-x", "--help"]
    agreed = 0
    for argv in itertools.chain.from_iterable(itertools.product(words, repeat=n) for n in range(4)):
        fast = parse(TABLE, argv)
        if fast is None:
            continue
        agreed += 1
        try:
            assert typed(TABLE, list(argv)) == fast, argv
        except usage as refused:
            pytest.fail(f"typer refuses {argv}: {refused}")
    assert agreed > 20


def test_lines_that_are_not_plain_are_left_to_typer() -> None:
    for argv in (
        [],
        ["--limit"],
        ["t", "--limit", "--loud"],
        ["t", "--lim", "2s"],
        ["t", "--help"],
        ["t", "-l"],
    ):
        assert parse(TABLE, argv) is None, argv


@pytest.mark.parametrize("name", COMMANDS)
def test_option_tables_match_their_commands(name: str) -> None:
    import inspect

    module = import_module(f"stormproof.cli.{name}")
    wanted = set(inspect.signature(module.command).parameters)
    given = {option.name for option in module.OPTIONS}
    assert given == wanted or wanted == {"argv", "options"}
    flags = [flag for option in module.OPTIONS for flag in option.flags]
    assert len(flags) == len(set(flags))
    assert "--json" in flags or name in ("lab", "schema")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert f"stormproof {name}" in out and err == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["lnit"], "unknown command 'lnit'; did you mean 'lint'?"),
        (["explain"], "explain: give either a policy file or --python MODULE:NAME"),
        (["explain", "a.toml", "--slo", "soon"], "--slo: a duration must read like"),
        (["explain", "a.toml", "--slo", "0s"], "--slo: must be finite and above 0, got '0s'"),
        (["explain", "no-such.toml"], "no-such.toml: No such file or directory"),
        (["explain", "a.toml", "--bogus"], "--bogus"),
        (["explain", "a.txt"], None),
        (["lint", "no-such-folder"], "no-such-folder: no such file or folder"),
        (["lint", "--format", "xml"], "--format: unknown value 'xml'"),
        (["lint", "--select", "SP9"], "unknown rule 'SP9'"),
        (["run"], "CMD"),
        (["run", "--attempts", "0", "--", "true"], "--attempts: must be a whole number >= 1, got '0'"),
        (["run", "--attempts", "none", "--", "true"], "--attempts: none needs a --deadline"),
        (["run", "--base", "2s", "--cap", "1s", "--", "true"], "--base: must not be longer than --cap"),
        (["run", "--jitter", "ful", "--", "true"], "did you mean 'full'?"),
        (["run", "--on-exit", "0", "--", "true"], "--on-exit: codes must be from 1 to 255"),
        (["run", "--on-exit", "9-3", "--", "true"], "--on-exit: codes must be from 1 to 255"),
        (["run", "--on-output", "(", "--", "true"], "--on-output: "),
        (["run", "--timeout", "0", "--", "true"], "--timeout: must be finite and above 0"),
        (["run", "--seed", "-1", "--", "true"], None),
    ],
)
def test_every_mistake_is_one_line(
    argv: list[str],
    says: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) in ((2,) if says is not None else (1, 2))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stormproof: ") and err.count("\n") == 1, err
    assert says is None or says in err


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, **more}


def test_plain_line_starts_without_typer_and_rich(tmp_path: Path) -> None:
    (tmp_path / "stormproof.toml").write_text("[policies.a]\nretry = {}\n")
    (tmp_path / "a.py").write_text("import tenacity\n")
    script = (
        "import sys; from stormproof.cli import main; main(sys.argv[1:]);"
        "print({'typer', 'rich', 'click', 'pydantic', 'asyncio'} & set(sys.modules))"
    )
    for line in (["explain", "stormproof.toml", "--slo", "2s"], ["run", "--", "true"], ["schema"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *line],
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
            cwd=tmp_path,
        )
        assert done.stdout.splitlines()[-1] == "set()", (line, done.stdout, done.stderr)


def test_completions_list_options_and_values(tmp_path: Path) -> None:
    def complete(words: str) -> set[str]:
        more = {
            "_STORMPROOF_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        done = subprocess.run(
            [sys.executable, "-m", "stormproof.cli"],
            check=False,
            capture_output=True,
            text=True,
            env=environment(**more),
            cwd=tmp_path,
        )
        assert done.returncode == 0 and done.stderr == ""
        return set(done.stdout.split())

    assert complete("stormproof ex") == {"explain"}
    assert complete("stormproof run --jitter ") == set(run.JITTERS)
    assert complete("stormproof lint --format s") == {"sarif"}
    assert "--slo" in complete("stormproof explain --s")
