"""Clients that retry by themselves, with what they do by default and the option that says otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sdk:
    """Constructors of clients (a pattern of dotted names), their default, and the options that change it.

    ``release`` is the one whose code the default was read from; another may differ.
    """

    constructors: re.Pattern[str]
    default: str
    options: tuple[str, ...]
    release: str


def _sdk(release: str, constructors: str, default: str, *options: str) -> Sdk:
    return Sdk(re.compile(constructors), default, options, release)


#: Other clients of google.cloud are not here: which of their methods retry is set per method.
#: stripe is not here: a ``StripeClient`` of stripe 16.1 retries only if it is given ``max_network_retries``.
SDKS = (
    _sdk("openai 3.51", r"openai\.(Async)?(Azure)?OpenAI\w*", "2 retries", "max_retries"),
    _sdk("anthropic 2.10", r"anthropic\.(Async)?Anthropic\w*", "2 retries", "max_retries"),
    _sdk("groq 1.7", r"groq\.(Async)?Groq", "2 retries", "max_retries"),
    _sdk("boto3 1.44", r"boto3\.(client|resource)", "2 retries", "config"),
    _sdk("google-cloud-storage 3.17", r"google\.cloud\.storage\.Client", "for up to 120 s", "client_options"),
    _sdk(
        "azure-core 1.41", r"azure\.[\w.]+Client", "3 retries", "retry_total", "retry_policy", "retry_options"
    ),
    _sdk(
        "redis 8.1",
        r"redis\.(asyncio\.)?(cluster\.)?(Strict)?Redis(Cluster)?(\.from_url)?",
        "10 retries",
        "retry",
    ),
    _sdk("elasticsearch 9.5", r"elasticsearch\.(Async)?Elasticsearch", "3 retries", "max_retries"),
    _sdk("opensearch-py 3.2", r"opensearchpy\.(Async)?OpenSearch", "3 retries", "max_retries"),
    _sdk(
        "kubernetes 37.0",
        r"kubernetes\.client\.(ApiClient|\w+V\d\w*Api)",
        "3 retries of lost connections",
        "configuration",
        "api_client",
    ),
    _sdk(
        "pymongo 4.20", r"pymongo\.(Async)?MongoClient", "1 retry, 2 of overload", "retryReads", "retryWrites"
    ),
    _sdk("urllib3 2.8", r"urllib3\.PoolManager", "3 retries of lost connections", "retries"),
)


#: Methods of clients that send nothing: they set something up, or compute on this machine.
_LOCAL_METHODS = re.compile(
    r"a?close|copy|with_\w+|count_tokens|get_tokenizer|get_paginator|get_waiter|can_paginate|generate_presigned_\w+|"
    r"pipeline|lock|pubsub|register_script|bucket|blob|document|collection|client|resource|[A-Z]\w*|"
    r"get_\w*client|get_database|get_collection|\w+_path|set_\w+|from_\w+|dataset|table|topic_path"
)


def sends(method: str) -> bool:
    """Return True if ``method``, the dotted name after a client's, makes a request as far as it shows."""
    return _LOCAL_METHODS.fullmatch(method.rpartition(".")[2]) is None


def default_retries(constructor: str, options: set[str]) -> str | None:
    """Return what a client made by ``constructor`` does by default; ``None`` if nothing is known of it.

    A client that is given one of the options that change it is not counted.
    """
    for sdk in SDKS:
        if sdk.constructors.fullmatch(constructor):
            return None if options & set(sdk.options) else sdk.default
    return None
