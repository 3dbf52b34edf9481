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


#: Numbers as read from openai, anthropic, boto3, redis 8.1 and urllib3; of the others only that they retry.
#: A release may change them: the options that say so are beside each.
SDKS = (
    _sdk(r"(openai|anthropic|groq)\.(Async)?(Azure)?(OpenAI|Anthropic|Groq)\w*", "2 retries", "max_retries"),
    _sdk(r"boto3\.(client|resource|session\.Session|Session)", "2 retries", "config"),
    _sdk(r"google\.cloud\.[\w.]*Client", "several retries", "retry", "client_options"),
    _sdk(r"azure\.[\w.]+Client", "several retries", "retry_total", "retry_policy", "retry_options"),
    _sdk(r"stripe\.StripeClient", "several retries", "max_network_retries"),
    _sdk(r"redis\.(asyncio\.)?(cluster\.)?(Strict)?Redis(Cluster)?(\.from_url)?", "10 retries", "retry"),
    _sdk(
        r"(elasticsearch|opensearchpy)\.(Async)?(Elasticsearch|OpenSearch)", "several retries", "max_retries"
    ),
    _sdk(r"kubernetes\.client\.(ApiClient|\w+V\d\w*Api)", "several retries", "configuration", "api_client"),
    _sdk(r"pymongo\.(Async)?MongoClient", "several retries", "retryReads", "retryWrites"),
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
