"""Policies that behave as well-known clients do, number for number.

Each function gives a `Policy`; its docstring states the numbers, and where and why it departs from
its original. Change single options with ``.with_(...)``. State is made anew at each call: keep one
policy per client, as the originals keep one quota per client.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .aws import aws_adaptive as aws_adaptive
    from .aws import aws_standard as aws_standard
    from .aws import aws_v2_1 as aws_v2_1
    from .backoffs import AwsBackoff as AwsBackoff
    from .backoffs import GrpcBackoff as GrpcBackoff
    from .backoffs import HintedExponential as HintedExponential
    from .backoffs import PollyJitter as PollyJitter
    from .clients import cenkalti as cenkalti
    from .clients import google as google
    from .clients import polly as polly
    from .clients import retryablehttp as retryablehttp
    from .clients import stripe as stripe
    from .meshes import EnvoyBudget as EnvoyBudget
    from .meshes import envoy as envoy
    from .meshes import finagle as finagle
    from .service_config import from_service_config as from_service_config
    from .service_config import grpc as grpc
    from .service_config import grpc_throttle as grpc_throttle
    from .service_config_text import LossyServiceConfig as LossyServiceConfig
    from .service_config_text import to_service_config as to_service_config

_HOMES = {
    "aws": ("aws_adaptive", "aws_standard", "aws_v2_1"),
    "backoffs": ("AwsBackoff", "GrpcBackoff", "HintedExponential", "PollyJitter"),
    "clients": ("cenkalti", "google", "polly", "retryablehttp", "stripe"),
    "meshes": ("EnvoyBudget", "envoy", "finagle"),
    "service_config": ("from_service_config", "grpc", "grpc_throttle"),
    "service_config_text": ("LossyServiceConfig", "to_service_config"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
# Type checkers read the imports above.
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # noqa: PLE0605


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
