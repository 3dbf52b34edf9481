"""``stormproof schema``: the JSON Schema of policy files."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def command(
    indent: Annotated[
        int, typer.Option(help="Spaces per level; 0 writes everything on one line.", min=0)
    ] = 2,
) -> None:
    """Print the JSON Schema of policy files, for editors and CI."""
    from .._config.schema import document

    print(json.dumps(document(), indent=indent or None))
