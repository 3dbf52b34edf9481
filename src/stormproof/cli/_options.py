"""A command's options as one table, read in two ways.

A plain command line is read by `parse`, which needs nothing but this module: typer brings pydantic
with it, and the two together start slower than most commands run. Help, completions, and every
command line that `parse` has doubts about go to typer, whose command `for_typer` makes out of the same
table. Values stay text until the command itself converts them, so both ways end in the same errors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: Each is a module of this package with such a table, ``OPTIONS``, and a function ``command``.
COMMANDS = ("demo", "explain", "fleet", "lab", "lint", "run", "schema", "simulate")


class Option:
    """One option or argument of a command.

    ``flags`` is empty for an argument. ``kind`` is "text" (one value), "flag" (none), "many" (may be
    repeated, an argument may have any number) or "rest" (everything from the first argument on).
    """

    __slots__ = ("complete", "default", "flags", "help", "kind", "metavar", "name")

    def __init__(
        self,
        name: str,
        help: str,
        *flags: str,
        kind: str = "text",
        default: str | None = None,
        metavar: str | None = None,
        complete: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        self.name = name
        self.help = help
        self.flags = flags
        self.kind = kind
        self.default = default
        self.metavar = metavar
        self.complete = complete

    @property
    def takes_several(self) -> bool:
        """True if its value is a list."""
        return self.kind in ("many", "rest")

    @property
    def is_required(self) -> bool:
        """True for an argument that must be given."""
        optional = self.flags or self.kind == "many" or self.default is not None
        return not optional and self.metavar is not None

    def empty(self) -> Any:
        """The value when it is not given."""
        return False if self.kind == "flag" else [] if self.takes_several else self.default


def parse(options: Sequence[Option], argv: Sequence[str]) -> dict[str, Any] | None:
    """The values of ``argv`` by name; ``None`` if anything about it is not plain, which typer then judges."""
    values: dict[str, Any] = {option.name: option.empty() for option in options}
    by_flag = {flag: option for option in options for flag in option.flags}
    ends_at_argument = any(option.kind == "rest" for option in options)
    arguments: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--" or (ends_at_argument and not word.startswith("-")):
            arguments += words if word == "--" else [word, *words]
            break
        if word == "-" or not word.startswith("-"):
            arguments.append(word)
            continue
        flag, equals, value = word.partition("=")
        option = by_flag.get(flag)
        if option is None or not flag.startswith("--") or (option.kind == "flag" and equals):
            return None
        if option.kind == "flag":
            values[option.name] = True
            continue
        if not equals:
            if not words or words[0].startswith("-"):
                return None
            value = words.pop(0)
        values[option.name] = [*values[option.name], value] if option.takes_several else value
    return values if _place(arguments, options, values) else None


def _place(words: list[str], options: Sequence[Option], values: dict[str, Any]) -> bool:
    """Give ``words`` to the arguments among ``options``, in order; False if they are too few or too many."""
    for option in options:
        if option.flags:
            continue
        if option.takes_several:
            values[option.name], words = words, []
        elif words:
            values[option.name], *words = words
        if option.is_required and not values[option.name]:
            return False
    return not words


def for_typer(options: Sequence[Option], command: Callable[..., Any]) -> Callable[..., Any]:
    """``command`` with the signature that typer reads the same options from."""
    import inspect
    from typing import Annotated

    import typer

    def called(**given: Any) -> Any:
        for option in options:
            if option.takes_several:
                given[option.name] = list(given[option.name] or ())
        return command(**given)

    parameters = []
    for option in options:
        kind: Any = bool if option.kind == "flag" else list[str] if option.takes_several else str
        default: object = None if option.takes_several else option.empty()
        # In help, rich takes a word in brackets for a style.
        settings: dict[str, Any] = {"help": option.help.replace("[", "\\["), "metavar": option.metavar}
        if option.complete is not None:
            settings["autocompletion"] = _completer(option.complete)
        info = typer.Option(*option.flags, **settings) if option.flags else typer.Argument(**settings)
        if option.is_required:
            default = inspect.Parameter.empty
        elif default is None:
            kind = kind | None
        parameters.append(
            inspect.Parameter(
                option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
            )
        )
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__doc__ = command.__doc__
    return called


def _completer(words: Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    return lambda incomplete: [word for word in words() if word.startswith(incomplete)]
