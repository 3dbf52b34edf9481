"""``stormproof schema``: the JSON Schema of policy files."""

from __future__ import annotations

from ._options import Option
from ._values import whole

OPTIONS = (
    Option(
        "indent",
        "Spaces per level; 0 writes everything on one line.",
        "--indent",
        default="2",
        metavar="NUMBER",
    ),
)


def command(indent: str) -> None:
    """Print the JSON Schema of policy files, for editors and CI."""
    import json

    from .._config.schema import document

    print(json.dumps(document(), indent=whole("--indent", indent, least=0) or None))
