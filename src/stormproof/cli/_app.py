"""The Typer application: which commands there are, and how errors become one line."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from .._version import __version__
from ._exit_codes import FAILED, INTERRUPTED, OK
from ._options import COMMANDS, for_typer
from ._outcome import exit_code_of, print_error

# Where click lives depends on typer's release; typer's own subclass leads to it in all of them.
_UsageProblem: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException" and issubclass(c, Exception)
)


class _Lazy(typer.core.TyperGroup):
    """A group that imports a command's module when that command is looked up."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            module = importlib.import_module(f"stormproof.cli.{cmd_name}")
            single = typer.Typer(add_completion=False)
            # Arguments after the name of another command belong to that command.
            settings = {"allow_interspersed_args": cmd_name != "run"}
            single.command(cmd_name, context_settings=settings)(for_typer(module.OPTIONS, module.command))
            self.commands[cmd_name] = typer.main.get_command(single)
        return self.commands[cmd_name]


app = typer.Typer(cls=_Lazy, name="stormproof", pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"stormproof {__version__}")
        raise typer.Exit(OK)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Retries, budgets and deadlines. Exit codes: 0 good, 1 negative verdict or finding, 2 error."""
    if ctx.invoked_subcommand is None:
        text = ctx.get_help()
        if text:
            print(text)
        raise typer.Exit(FAILED)


def run(argv: list[str]) -> int:
    """Run one command line. Every expected error is one line on stderr."""
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        from .._config.errors import unknown

        return print_error(unknown("command", argv[0][:64], COMMANDS), FAILED)
    return exit_code_of(lambda: _run_with_typer(argv))


def _run_with_typer(argv: list[str]) -> Any:
    try:
        return typer.main.get_command(app).main(args=argv, prog_name="stormproof", standalone_mode=False)
    except _UsageProblem as problem:
        click_error: Any = problem
        return print_error(click_error.format_message(), click_error.exit_code)
    except typer.Abort:
        return INTERRUPTED
