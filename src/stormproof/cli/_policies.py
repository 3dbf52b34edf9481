"""Policies named on a command line: ``file``, ``file:name``, or ``--python package.module:object``."""

from __future__ import annotations

import os
import warnings

from ._options import Option
from ._outcome import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._config.registry import Registry
    from .._policy.policy import Policy

TARGET = Option(
    "target", "A policy file, or file:name for one policy of it.", default="", metavar="FILE[:NAME]"
)
PYTHON = Option(
    "python",
    "A policy (or a function decorated with one) in code; imports that module.",
    "--python",
    metavar="MODULE:NAME",
)


def named(command: str, target: str, python: str | None) -> dict[str, Policy]:
    """Return the policies of the options `TARGET` and `PYTHON`, of which ``command`` takes one."""
    if bool(target) == (python is not None):
        raise CommandError(f"{command}: give either a policy file or --python MODULE:NAME")
    return from_file(target) if python is None else from_python(python)


def split(target: str) -> tuple[str, str | None]:
    """(file, policy's name or None). A file that exists under the whole text is that file."""
    if os.path.exists(target) or ":" not in target:
        return target, None
    file, _, name = target.rpartition(":")
    if not name or not file or "/" in name or os.sep in name:
        raise CommandError(f"{target!r}: must be a file, or file:policy")
    return file, name


def from_file(target: str) -> dict[str, Policy]:
    """The policies that ``target`` names, by name, in the file's order.

    Exception classes that the file names are not looked up, and its store is left alone: nothing a
    command shows depends on them, and it is only asked about the application, not part of it.
    """
    file, name = split(target)
    registry = registered(file)
    if name is None:
        if not registry:
            raise CommandError(f"{file}: it holds no policy")
        return dict(registry)
    try:
        return {name: registry[name]}
    except KeyError as error:
        raise CommandError(f"{file}: {error.args[0]}") from None


def registered(file: str) -> Registry:
    """The registry of ``file``, with the environment's changes, as the program would load it."""
    from .._config import sources
    from .._config.detached import detached
    from .._config.errors import ConfigError
    from .._config.overrides import overridden
    from .._config.registry import Registry

    try:
        with warnings.catch_warnings():
            # The warnings of making a policy are shown as advice, with the rest.
            warnings.simplefilter("ignore")
            document = overridden(sources.read(file), os.environ, "STORMPROOF")
            return Registry(lambda: detached(document))
    except ConfigError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None


def from_python(reference: str) -> dict[str, Policy]:
    """Return the policy of ``package.module:object`` (`stormproof.policy_of`). Imports the module."""
    import sys
    from importlib import import_module

    module, colon, name = reference.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise CommandError(f"--python: must read like package.module:policy, got {reference[:100]!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        value: object = import_module(module)
    except Exception as error:
        raise CommandError(
            f"--python: importing {module!r} failed: {type(error).__name__}: {error}"
        ) from None
    for part in name.split("."):
        if not hasattr(value, part):
            raise CommandError(f"--python: {module!r} has no {name!r}")
        value = getattr(value, part)
    return {name: _policy_of(value, reference)}


def _policy_of(part: object, reference: str) -> Policy:
    from ..presets.policy_of import policy_of

    try:
        return policy_of(part)
    except TypeError:
        raise CommandError(f"--python: {reference} is a {type(part).__name__}, not a Policy") from None
    except ValueError as error:
        raise CommandError(f"--python: {reference}: {error}") from None
