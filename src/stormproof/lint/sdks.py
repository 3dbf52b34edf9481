"""Clients that retry by themselves, with what they do by default and the option that says otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sdk:
    """Constructors of clients (a pattern of dotted names), their default, and the options that change it."""

    constructors: re.Pattern[str]
    default: str
    options: tuple[str, ...]


def _sdk(constructors: str, default: str, *options: str) -> Sdk:
    return Sdk(re.compile(constructors), default, options)


#: As each SDK documents its defaults. A release may change them: the option that says so is beside each.
SDKS = (
    _sdk(r"(openai|anthropic|groq)\.(Async)?(Azure)?(OpenAI|Anthropic|Groq)\w*", "2 retries", "max_retries"),
    _sdk(r"boto3\.(client|resource|session\.Session|Session)", "4 retries", "config"),
    _sdk(r"google\.cloud\.[\w.]*Client", "retries for minutes", "retry", "client_options"),
    _sdk(r"azure\.[\w.]+Client", "3 retries", "retry_total", "retry_policy", "retry_options"),
    _sdk(r"stripe\.StripeClient", "2 retries", "max_network_retries"),
    _sdk(r"redis\.(asyncio\.)?(cluster\.)?(Strict)?Redis(Cluster)?(\.from_url)?", "3 retries", "retry"),
    _sdk(r"(elasticsearch|opensearchpy)\.(Async)?(Elasticsearch|OpenSearch)", "3 retries", "max_retries"),
    _sdk(r"kubernetes\.client\.(ApiClient|\w+V\d\w*Api)", "3 retries", "configuration", "api_client"),
    _sdk(r"pymongo\.(Async)?MongoClient", "1 retry", "retryReads", "retryWrites"),
    _sdk(r"urllib3\.PoolManager", "3 retries", "retries"),
)


def default_retries(constructor: str, options: set[str]) -> str | None:
    """Return what a client made by ``constructor`` does by default; ``None`` if nothing is known of it.

    A client that is given one of the options that change it is not counted.
    """
    for sdk in SDKS:
        if sdk.constructors.fullmatch(constructor):
            return None if options & set(sdk.options) else sdk.default
    return None
