"""``stormproof lint``: what is wrong with the retries of a program."""

from __future__ import annotations

from ._exit_codes import FAILED, NEGATIVE, OK
from ._options import Option
from ._outcome import CommandError, print_error, print_json
from ._values import choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..lint import Finding, Settings

_FORMATS = ("text", "json", "sarif", "github")

OPTIONS = (
    Option("paths", "Files and folders; the present folder if none is given.", kind="many", metavar="PATH"),
    Option(
        "select",
        "Only these rules: codes or beginnings of codes, ALL.",
        "--select",
        kind="many",
        metavar="CODES",
    ),
    Option("ignore", "Not these rules.", "--ignore", kind="many", metavar="CODES"),
    Option("strict", "Report what rests on a guess as well.", "--strict", kind="flag"),
    Option("exclude", "Leave out what matches, in folders.", "--exclude", kind="many", metavar="PATTERN"),
    Option("config", "A pyproject.toml; else the nearest one upwards.", "--config", metavar="FILE"),
    Option("format", "text, json, sarif or github.", "--format", default="text", complete=lambda: _FORMATS),
    Option("as_json", "Short for --format json.", "--json", kind="flag"),
    Option("rules", "Describe every rule and end.", "--rules", kind="flag"),
    Option("fix", "Rewrite tenacity, backoff and stamina in place.", "--fix", kind="flag"),
    Option("diff", "Show what --fix would change; 1 if anything.", "--diff", kind="flag"),
)


def command(
    paths: list[str],
    select: list[str],
    ignore: list[str],
    strict: bool,
    exclude: list[str],
    config: str | None,
    format: str,
    as_json: bool,
    rules: bool,
    fix: bool,
    diff: bool,
) -> int:
    """Look for what is wrong with retries, in Python sources and policy files.

    Exit code 0 if nothing is found, 1 if something is, 2 if it was called wrongly or a file cannot be read.
    It reports what the code itself shows; --strict adds what rests on a guess, such as the name of a call.
    Nothing that it looks at is imported or run. A comment "# stormproof: ignore[SP003]" ignores a finding.
    --fix rewrites tenacity, backoff and stamina: to Stormproof where the meaning is certain, else to the
    drop-ins of stormproof.compat. --diff shows it first.
    """
    if fix or diff:
        from . import _lint_fixes

        return _lint_fixes.rewrite(paths, exclude, config, write=fix and not diff)
    from ..lint import reports
    from . import _lint_files

    written = choice("--format", "json" if as_json else format, _FORMATS)
    if rules:
        _describe(written)
        return OK
    findings, count, unread = _look(
        paths, _lint_files.settings(config, select, ignore, strict=strict), exclude
    )
    text = reports.WRITERS[written](findings, count)
    if text:
        print(text)
    for problem in unread:
        print_error(problem, FAILED)
    return FAILED if unread else NEGATIVE if findings else OK


def _describe(format: str) -> None:
    from ..lint import reports

    if format not in ("text", "json"):
        raise CommandError(f"lint: --rules can be text or json, got {format!r}")
    if format == "json":
        print_json({"rules": reports.rules_as_data()})
    else:
        print(reports.rules_as_text())


def _look(paths: list[str], chosen: Settings, exclude: list[str]) -> tuple[list[Finding], int, list[str]]:
    """Return the findings, the number of files, and those that could not be read."""
    from dataclasses import replace

    from .. import lint
    from . import _lint_files

    chosen = replace(chosen, exclude=(*chosen.exclude, *exclude))
    findings: list[Finding] = []
    unread: list[str] = []
    count = 0
    for path in _lint_files.files(paths or ["."], chosen):
        try:
            text = _lint_files.text_of(path)
        except (OSError, ValueError) as error:
            unread.append(f"{path}: {getattr(error, 'strerror', None) or error}")
            continue
        count += 1
        findings += lint.check(text, path, chosen)
    return findings, count, unread
