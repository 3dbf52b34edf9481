"""Reads TOML, JSON and YAML into a `Document`: plain data, and the line of every key."""

from __future__ import annotations

import os

from .errors import ConfigError, Document, Path, Spot, spelt
from .key_lines import DEEPEST, in_json, in_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: YAML aliases can make a small file stand for a vast one; no policy file has this many values.
_MOST_NODES = 100_000

#: An integer with more bits is larger than every float.
_MOST_BITS = 1024

#: More parts of a dotted key than there may be levels; a run of them is only tried from where it begins.
_LONG_KEY = rf"(?<![\w\"'-])(?:[\w\"'-]+[ \t]*\.[ \t]*){{{DEEPEST}}}"


def read(file: str) -> Document:
    """Return the document in ``file``; its suffix determines the format."""
    suffix = _known(os.path.splitext(file)[1], file)
    with open(file, "rb") as stream:
        raw = stream.read()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"must be UTF-8: {error.reason}", file, raw.count(b"\n", 0, error.start) + 1
        ) from None
    return parse(text, suffix, file)


def parse(text: str, suffix: str, file: str | None = None) -> Document:
    """The document that ``text`` is, in the format of ``suffix``; ``file`` is only named in errors."""
    reader = _READERS[_known(suffix, file)]
    try:
        document = reader(text, file)
        _check_numbers(document.root())
        return document
    except RecursionError:
        raise ConfigError("is nested too deeply", file) from None


def _check_numbers(spot: Spot) -> None:
    """Refuse whole numbers with more (hexadecimal) digits than Python converts to decimal."""
    value = spot.value
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            if isinstance(key, int) and key.bit_length() > _MOST_BITS:
                raise spot.error("has a key that is too large a number")
            _check_numbers(spot.at(key))
    elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise spot.error("is too large a number for any option")


def _known(suffix: str, file: str | None) -> str:
    if suffix.lower() not in _READERS:
        raise ConfigError(f"the suffix must be one of {', '.join(_READERS)}", file)
    return suffix.lower()


def _toml(text: str, file: str | None) -> Document:
    import re
    import tomllib

    # The parser's time grows with the square of a dotted key's parts, and the cube of a long table's.
    if re.search(_LONG_KEY, text):
        raise ConfigError("is nested too deeply", file)
    try:
        data = tomllib.loads(text)
    except ValueError as error:
        message, line = _without_place(str(error), text)
        raise ConfigError(message, file, line) from None
    return Document(data, file, in_toml(text))


def _without_place(message: str, text: str) -> tuple[str, int | None]:
    """A parser's message without "(at line 3, column 7)", and that line."""
    head, separator, place = message.rpartition(" (at ")
    if not separator:
        return message, None
    number = place.removeprefix("line ").partition(",")[0]
    if not number.isdigit():
        # "(at end of document)"
        return head, text.count("\n") + 1
    return head, int(number)


def _json(text: str, file: str | None) -> Document:
    import json

    def refuse(name: str) -> Any:
        raise ValueError(f'{name} is not JSON; for infinity write "inf"')

    try:
        data = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ConfigError(error.msg, file, error.lineno) from None
    except ValueError as error:
        raise ConfigError(str(error), file) from None
    lines, twice = in_json(text)
    if twice is not None:
        raise _given_twice(file, *twice, lines)
    return Document(data, file, lines)


def _yaml(text: str, file: str | None) -> Document:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError("YAML needs PyYAML: install stormproof[yaml]", file) from None
    try:
        loader = _yaml_loader(yaml)(text)
        try:
            node = loader.get_single_node()
            lines: dict[Path, int] = {}
            if node is not None:
                _yaml_lines(yaml, node, (), lines, file, [_MOST_NODES])
            data = None if node is None else _constructed(loader, node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(message, file, None if mark is None else mark.line + 1) from None
    except yaml.YAMLError as error:
        raise ConfigError(" ".join(str(error).split()), file) from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error), file) from None
    return Document(data, file, lines)


def _constructed(loader: Any, node: object) -> Any:
    """The plain data of ``node``. PyYAML does not check that a value fits the tag written before it."""
    try:
        return loader.construct_document(node)
    except (LookupError, AttributeError, TypeError, ArithmeticError):
        raise ValueError("holds a value that is not what its tag says") from None


def _yaml_loader(yaml: Any) -> Any:
    """The safe loader, with the booleans of YAML 1.2: in 1.1 the key ``on`` would read as true."""
    import re

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
            first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    return Loader


def _yaml_lines(
    yaml: Any, node: Any, path: Path, lines: dict[Path, int], file: str | None, left: list[int]
) -> None:
    """Record the line of every key. A key merged in by ``<<`` has the line where it was first written."""
    left[0] -= 1
    if left[0] < 0:
        raise ConfigError("holds too many values", file)
    if isinstance(node, yaml.SequenceNode):
        for place, item in enumerate(node.value):
            lines.setdefault((*path, place), item.start_mark.line + 1)
            _yaml_lines(yaml, item, (*path, place), lines, file, left)
    if not isinstance(node, yaml.MappingNode):
        return
    own: dict[Path, int] = {}
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        inner = (*path, str(key.value))
        line = key.start_mark.line + 1
        if inner in own:
            raise _given_twice(file, inner, line, own)
        own[inner] = line
        if inner in lines:
            # The table into which this one is merged has its own.
            continue
        lines[inner] = line
        _yaml_lines(yaml, value, inner, lines, file, left)
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                _yaml_lines(yaml, source, path, lines, file, left)


def _given_twice(file: str | None, path: Path, line: int, lines: dict[Path, int]) -> ConfigError:
    return ConfigError(f"given twice, first on line {lines[path]}", file, line, spelt(path))


_READERS = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}
