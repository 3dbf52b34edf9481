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

#: The commands whose options are such a table; the others are typer's alone.
TABLED = ("explain", "fleet", "lint", "run", "simulate")


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

    def empty(self) -> Any:
        """The value when it is not given."""
        return False if self.kind == "flag" else [] if self.kind in ("many", "rest") else self.default


def parse(options: Sequence[Option], argv: Sequence[str]) -> dict[str, Any] | None:
    """The values of ``argv`` by name; ``None`` if anything about it is not plain, which typer then judges."""
    given: dict[str, Any] = {option.name: option.empty() for option in options}
    by_flag = {flag: option for option in options for flag in option.flags}
    places = [option for option in options if not option.flags]
    rest = any(option.kind == "rest" for option in places)
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            tail = [] if word == "--" else [word]
            if rest or word == "--":
                tail += words
                words = []
            if not _place(places, given, tail):
                return None
            continue
        flag, equals, value = word.partition("=")
        option = by_flag.get(flag)
        if option is None or not flag.startswith("--") or (option.kind == "flag" and equals):
            return None
        if option.kind == "flag":
            given[option.name] = True
            continue
        if not equals:
            if not words or words[0].startswith("-"):
                return None
            value = words.pop(0)
        if option.kind == "many":
            given[option.name] = [*given[option.name], value]
        else:
            given[option.name] = value
    missing = any(
        option.metavar
        and option.kind in ("text", "rest")
        and option.default is None
        and not given[option.name]
        for option in places
    )
    return None if missing else given


def _place(places: list[Option], given: dict[str, Any], words: list[str]) -> bool:
    """Hand ``words`` to the arguments still free; False if one is left over."""
    for word in words:
        free = next((o for o in places if o.kind in ("many", "rest") or given[o.name] == o.default), None)
        if free is None:
            return False
        if free.kind == "text":
            given[free.name] = word
        else:
            given[free.name] = [*given[free.name], word]
    return True


def for_typer(options: Sequence[Option], command: Callable[..., Any]) -> Callable[..., Any]:
    """``command`` with the signature that typer reads the same options from."""
    import inspect
    from typing import Annotated

    import typer

    def called(**given: Any) -> Any:
        for option in options:
            if option.kind in ("many", "rest"):
                given[option.name] = list(given[option.name] or ())
        return command(**given)

    parameters = []
    for option in options:
        several = option.kind in ("many", "rest")
        kind: Any = bool if option.kind == "flag" else list[str] if several else str
        default: object = False if option.kind == "flag" else None if several else option.default
        # In help, rich takes a word in brackets for a style.
        settings: dict[str, Any] = {"help": option.help.replace("[", "\\["), "metavar": option.metavar}
        if option.complete is not None:
            settings["autocompletion"] = _completer(option.complete)
        if option.flags:
            info = typer.Option(*option.flags, **settings)
        else:
            info = typer.Argument(**settings)
            if option.default is None and option.kind in ("text", "rest") and option.metavar:
                default = inspect.Parameter.empty
        if default is None:
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
