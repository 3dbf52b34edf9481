"""Evidence that a call leaves the machine.

A crowd of callers can only meet at something that they share, so a retry of a file, a lock or a child
process needs neither jitter nor a budget. A call counts as remote if one of these is seen:

- it is made through a library for networks, or through an object which such a library made or which is
  annotated with one of its classes, unless the library is for sessions on single machines (SSH, sockets);
- it is a method of HTTP on a client or a session, and is given an address;
- the error that is retried belongs to such a library, or is a `ConnectionError`;
- a function of the same file that it calls shows one of the above;
- it calls a name that the file does not define, in a short file: an example in a text, not a program.

Nothing is evidence whose failures the retry cannot see (`handled`), and nothing in a function that asks its
user or starts a process of its own, which is then the server.

In the strict tier a guess is enough:

- the names of the error, the call, its arguments or the function around it say network;
- it calls a parameter of a function that is named after retries, for errors of any kind;
- a library's retry stands in a file that imports a library for networks.

The standard library, but for its modules about networks, stays on the machine.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from .handled import RetriedErrors, handled_calls
from .loops import called_function
from .statements import REPORTS, calls_in, name_of, targets, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .loops import Function
    from .names import Names

#: Packages that talk to other machines, by the beginning of their dotted names.
_NETWORK_LIBRARIES = (
    "requests httpx aiohttp urllib.request urllib.error urllib2 urllib3 http.client httplib httplib2 "
    "treq pycurl smtplib imaplib poplib ftplib nntplib xmlrpc jsonrpclib websocket websockets "
    "socketio ldap ldap3 dns suds zeep "
    "grpc thrift boto boto3 botocore aioboto3 aiobotocore s3fs gcsfs google.cloud google.api_core "
    "google.auth google.genai google.generativeai googleapiclient gspread azure msal msrest oss2 "
    "qcloud_cos openai anthropic cohere groq mistralai litellm together replicate ollama ibm_watsonx_ai "
    "zhipuai dashscope langchain_openai langchain_anthropic huggingface_hub wikipedia arxiv "
    "duckduckgo_search tavily serpapi psycopg psycopg2 psycopg_pool asyncpg pg8000 MySQLdb mysql "
    "pymysql aiomysql pyodbc cx_Oracle oracledb pymssql pymongo motor redis aioredis rediscluster "
    "memcache pymemcache cassandra neo4j influxdb influxdb_client clickhouse_driver clickhouse_connect "
    "snowflake databricks trino pyhive elasticsearch opensearchpy pinecone weaviate qdrant_client "
    "pymilvus arango couchdb couchbase hdfs kafka aiokafka confluent_kafka pika aio_pika amqp kombu "
    "stomp nats paho pulsar kubernetes kubernetes_asyncio consul etcd3 etcd3gw kazoo hvac pyVmomi "
    "oslo_vmware keystoneauth1 keystoneclient novaclient cinderclient neutronclient glanceclient "
    "ironicclient swiftclient heatclient octaviaclient barbicanclient openstack oslo_messaging stripe "
    "twilio sendgrid slack slack_sdk slackclient telegram telebot aiogram discord tweepy praw github "
    "gitlab jira atlassian zendesk simple_salesforce dropbox ccxt binance web3 yfinance tushare pysolr "
    "simplejsonrpc sentry_sdk posthog wandb mlflow.tracking comet_ml "
    "scrapy mechanize httpx_retries aiohttp_retry "
).split()
#: Packages for a session on one machine: no crowd shares it, and most often it has just been started.
_SESSION_LIBRARIES = (
    "socket.create_connection socket.getaddrinfo socket.gethostbyname socket.gaierror "
    "asyncio.open_connection telnetlib paramiko asyncssh fabric netmiko ncclient scrapli pysnmp"
).split()


def _any_of(libraries: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(map(re.escape, libraries))})(?:\.|$)")


_SHARED_NETWORKS = _any_of(_NETWORK_LIBRARIES)
_NETWORKS = _any_of((*_NETWORK_LIBRARIES, *_SESSION_LIBRARIES))
_STDLIB_NETWORKS = {name.partition(".")[0] for name in (*_NETWORK_LIBRARIES, *_SESSION_LIBRARIES)}
_STDLIB_NETWORKS |= {"socketserver", "ssl", "asyncio"}
#: Packages about this machine: its files, devices, processes and data in memory.
_LOCAL_LIBRARIES = sys.stdlib_module_names - _STDLIB_NETWORKS | {
    *"psutil serial usb pyroute2 filelock fasteners portalocker oslo_concurrency pexpect libvirt".split(),
    *"zmq jupyter_client duckdb numpy pandas torch yaml toml cv2 PIL aiofiles".split(),
}
#: Parts of identifiers that say network.
_SAYS_REMOTE = re.compile(
    r"https?.*|urls?|url\w+|api|apis|requests?|requester|fetch\w*|downloads?|downloader|uploads?|uploader|"
    r"rpc|grpc|jsonrpc|endpoints?|webhooks?|remote|rest|restful|graphql|s3|gcs|llms?|gpt\d*|openai|anthropic|"
    r"chat|completions?|ssh|sftp|ftp|smtp|imap|mqtt|amqp|kafka|redis|mongo|mongodb|mysql|postgres|clients?|"
    r"crawl\w*|scrap(e|er|ing)|upstream|dns|web|websocket|gateway|cloud|aws|azure|gcp|bigquery|"
    r"github|gitlab|slack|telegram|twitter|jira|nova|keystone|cinder|glance|swift"
)
#: Parts of identifiers of what runs on this machine, clients of it included.
_SAYS_LOCAL = re.compile(
    r"browser|cdp|playwright|kernel|jupyter|subprocess|process|lock|device|docker|containers?|sandbox|adb|serial|mount|disk"
)
#: Names of functions that read from memory.
_FROM_MEMORY = re.compile(r"(from|in)_(the_)?cache")
#: Parts of the names of arguments that say network.
_ADDRESS = re.compile(r"https?|urls?|endpoints?|hostname")
#: Parts of the names of errors that say network.
_ERROR_SAYS_REMOTE = re.compile(
    r"https?|connection|connect|network|api|requests?|transport|remote|rpc|grpc|ssl|tls|dns|urls?|socket|gateway|"
    r"unavailable|throttl\w*|ratelimit\w*|limit|overloaded?|server|service|client|response|websocket|"
    r"disconnected|disconnect|rest"
)
#: A server that was started on this very machine.
_OWN_MACHINE = re.compile(
    r"\blocalhost\b|127\.0\.0\.1|^\[?::1\]?|unix:|\.sock\b|\blocal server\b", re.IGNORECASE
)
#: Names that are not a file's own, those of Python 2 and of notebooks included.
_BUILTINS = frozenset(
    {
        *(*dir(builtins), "__file__", "__class__", "WindowsError"),
        *"raw_input unicode xrange long basestring unichr reduce file cmp get_ipython display".split(),
    }
)
_CONNECTION_ERRORS = {"ConnectionError", "BrokenPipeError"} | {
    f"Connection{how}Error" for how in ("Aborted", "Refused", "Reset")
}
#: Modules whose star import gives names of retries and sleeps alone.
_KNOWN_STARS = {"tenacity", "backoff", "stamina", "time", "random"}
_HTTP_METHODS = {"get", "post", "put", "patch", "delete", "head", "request"}
_HTTP_CLIENTS = re.compile(r"clients?|session|http|requests|httpx")
_LOGGERS = re.compile(r"_?log(ger|ging)?|warnings", re.IGNORECASE)
#: Names of functions that retry what they are given.
_RETRIES = re.compile(r"retr(y|ies)|backoff", re.IGNORECASE)
#: Libraries whose classes connect as they are made.
_CONNECTING = {"smtplib", "imaplib", "poplib", "ftplib"}
#: Functions that ask the user.
_ASKS = {"input", "raw_input", "getpass", "prompt", "confirm", "ask"}
#: Functions that start a process.
_STARTS = {"Popen", "create_subprocess_exec", "create_subprocess_shell", "popen_spawn"}
#: Largest sample in a text, in lines; in a longer file a name that nothing binds is a slip.
_SAMPLE = 100
#: Calls followed into functions of the same file.
_HOPS = 1


class Reach:
    """Answers for one file whether its calls leave the machine. ``guesses``: names are evidence too."""

    def __init__(
        self,
        tree: ast.Module,
        names: Names,
        functions: dict[tuple[str | None, str], Function],
        *,
        guesses: bool,
    ) -> None:
        self._tree = tree
        self._names = names
        self._functions = functions
        self._guesses = guesses
        self._networks = _NETWORKS if guesses else _SHARED_NETWORKS

    def leaves_machine(
        self,
        body: Sequence[ast.AST],
        caught: Sequence[str],
        function: Function | None,
        retried: RetriedErrors | None = None,
        hops: int = _HOPS,
    ) -> bool:
        """Return True if there is evidence that ``body``, a part of ``function``, calls another machine.

        ``caught`` are the dotted names of the errors that are retried, or handled in ``body``. A call whose
        failures do not reach what is ``retried`` is no evidence; ``None``: all of them do.
        """
        if any(map(_is_own_machine, (inner for node in body for inner in ast.walk(node)))):
            return False
        owner = None if function is None else function.owner
        if not self._guesses and (None in self._own_machine or owner in self._own_machine):
            return False
        if function is not None and hops and _FROM_MEMORY.search(function.name):
            return False
        hidden: set[int] = set()
        if not self._guesses and retried is not None:
            # It asks its user, or starts the process that it then waits for.
            if function is not None and any(name_of(call.func) in _ASKS | _STARTS for call in function.calls):
                return False
            hidden = handled_calls(body, retried)
        every = [call for call in calls_in(body) if not self._stays(call)]
        calls = [call for call in every if id(call) not in hidden]
        if every and not calls:
            return False
        if any(map(self._is_network_error, caught)):
            return True
        if self._guesses and calls and function is not None and hops and _function_says_remote(function):
            return True
        return any(self._is_remote(call, function, retried, hops) for call in calls)

    def library_retry_leaves_machine(
        self, function: Function, caught: Sequence[str], retried: RetriedErrors | None
    ) -> bool:
        """Return True as `leaves_machine` does; one may guess it from a library that the file imports."""
        if _says(_SAYS_LOCAL, function.name, function.owner or ""):
            return False
        if self.leaves_machine(function.node.body, caught, function, retried):
            return True
        is_busy = any(not self._stays(call) for call in function.calls)
        return self._guesses and is_busy and any(map(_NETWORKS.match, self._names.imports.values()))

    def leaves_machine_at_import(self, caught: Sequence[str]) -> bool:
        """Return True as `leaves_machine` does of the statements outside functions; one may guess it."""
        is_sample = not self._functions
        return self._guesses or is_sample or self.leaves_machine(self._tree.body, caught, None)

    def _is_network_error(self, name: str) -> bool:
        """Return True if an error of this dotted name is one of a network."""
        home, _, last = name.rpartition(".")
        if self._networks.match(name) or name in _CONNECTION_ERRORS:
            return True
        if not self._guesses or home.partition(".")[0] in _LOCAL_LIBRARIES:
            return False
        return any(map(_ERROR_SAYS_REMOTE.fullmatch, words_of(last)))

    def _stays(self, call: ast.Call) -> bool:
        """Return True if ``call`` is one of the language, of a logger or of a local library."""
        root, *attributes = _chain(call.func)
        if attributes and (attributes[-1] in REPORTS or _LOGGERS.fullmatch(root)):
            return True
        if not attributes and root in _BUILTINS and root not in self._defined:
            return True
        origins = self._origins(call.func)
        local = _LOCAL_LIBRARIES | _BUILTINS
        return bool(origins) and all(origin.partition(".")[0] in local for origin in origins)

    def _is_remote(
        self, call: ast.Call, function: Function | None, retried: RetriedErrors | None, hops: int
    ) -> bool:
        origins = self._origins(call.func)
        if any(map(self._networks.match, origins)) and (self._guesses or not self._only_makes(call)):
            return True
        if self._guesses and "socket.socket" in origins and name_of(call.func) == "connect":
            return True
        if (hops and self._is_undefined(call)) or (self._guesses and self._is_given(call)):
            return True
        if _says(_SAYS_LOCAL, *_chain(call.func)):
            return False
        if _is_http_call(call) or (self._guesses and _says_it_is_remote(call, with_address=bool(hops))):
            return True
        inner = called_function(call, function, self._functions) if hops else None
        if inner is None or inner is function:
            return False
        caught = _caught_in(inner.node, self._names)
        return self.leaves_machine(inner.node.body, caught, inner, retried, hops - 1)

    def _only_makes(self, call: ast.Call) -> bool:
        """Return True if ``call`` makes an object of a library's class: ``httpx.URL(text)`` sends nothing."""
        text = self._names.dotted(call.func) or ""
        home, _, last = text.rpartition(".")
        return last[:1].isupper() and not last.isupper() and home.partition(".")[0] not in _CONNECTING

    def _is_undefined(self, call: ast.Call) -> bool:
        """Return True if ``call`` calls a name that nothing in the file binds, as samples do."""
        root = _chain(call.func)[0]
        is_sample = self._guesses or max((n.end_lineno or 0 for n in self._tree.body), default=0) <= _SAMPLE
        known = self._defined | _BUILTINS | sys.stdlib_module_names
        is_bound = root in known or self._names.origin(root) != root
        return bool(root) and is_sample and not (self._has_star or is_bound)

    def _is_given(self, call: ast.Call) -> bool:
        """Return True if ``call`` calls what a ``def retry_...(fn)`` around it was given, or a ``call``."""
        return name_of(call.func) == "call" or (
            isinstance(call.func, ast.Name)
            and any(
                call.func.id
                in {arg.arg for arg in (*function.node.args.posonlyargs, *function.node.args.args)}
                for function in self._functions.values()
                if _RETRIES.search(function.name)
                and function.node.lineno <= call.lineno <= (function.node.end_lineno or 0)
            )
        )

    def _origins(self, func: ast.expr) -> set[str]:
        """Return the dotted names of what ``func``, or the object before its last dots, comes from."""
        while not isinstance(func, (ast.Name, ast.Attribute)):
            inner = getattr(func, "func", None) or getattr(func, "value", None)
            if not isinstance(inner, ast.expr):
                return set()
            func = inner
        text = self._names.dotted(func)
        if text is None:
            return self._origins(func.value) if isinstance(func, ast.Attribute) else set()
        if text.partition(".")[0] != _chain(func)[0] or _chain(func)[0] in self._names.imports:
            return {text}
        parts = text.split(".")
        for end in range(len(parts), 0, -1):
            if (made_by := self._made.get(".".join(parts[:end]))) is not None:
                return made_by
        return {text} if parts[0] in _BUILTINS and parts[0] not in self._defined else set()

    @cached_property
    def _own_machine(self) -> set[str | None]:
        """Return the classes that name this machine as their server; ``None`` stands for the module."""
        own: set[str | None] = set()
        for node in self._tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.If)):
                continue
            # Docstrings say nothing of the code, and a collection or a comparison names hosts of any kind.
            apart = (ast.Expr, ast.List, ast.Set, ast.Tuple, ast.Compare)
            others = {id(n) for part in ast.walk(node) if isinstance(part, apart) for n in ast.walk(part)}
            if any(_is_own_machine(n) for n in ast.walk(node) if id(n) not in others):
                own.add(node.name if isinstance(node, ast.ClassDef) else None)
        return own

    @cached_property
    def _made(self) -> dict[str, set[str]]:
        """Map each name or attribute of the file to the call that makes it or its annotation."""
        origins: dict[str, set[str]] = {}
        for target, source in _bindings(self._tree):
            name = self._names.dotted(target) if isinstance(target, ast.expr) else target
            while isinstance(source, (ast.Await, ast.Subscript, ast.Call, ast.BinOp)):
                # The first type of `Client | None`, the inner one of `Optional[Client]`.
                if isinstance(source, ast.BinOp):
                    source = source.left
                elif isinstance(source, ast.Subscript):
                    source = source.slice if name_of(source.value) == "Optional" else source.value
                else:
                    source = source.value if isinstance(source, ast.Await) else source.func
            origin = self._annotated(source)
            if name is not None and origin is not None:
                origins.setdefault(name, set()).add(origin)
        return origins

    def _annotated(self, source: ast.expr) -> str | None:
        if isinstance(source, ast.Constant) and isinstance(source.value, str):
            root, dot, rest = source.value.partition(".")
            return self._names.imports.get(root, root) + dot + rest
        return self._names.dotted(source)

    @cached_property
    def _defined(self) -> set[str]:
        """Every plain name that the file binds, in whatever scope."""
        bound = set(self._names.imports)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound.add(node.name)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                bound.add(node.name)
        return bound

    @cached_property
    def _has_star(self) -> bool:
        """Return True if a module that lint does not know gives the file names that it does not show."""
        return any(
            node.module not in _KNOWN_STARS
            for node in ast.walk(self._tree)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        )


def _bindings(tree: ast.Module) -> Iterator[tuple[ast.expr | str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.NamedExpr)) and isinstance(node.value, (ast.Call, ast.Await)):
            yield from ((target, node.value) for target in targets(node))
        elif isinstance(node, ast.AnnAssign):
            yield node.target, node.annotation
        elif isinstance(node, ast.arg) and node.annotation is not None:
            yield node.arg, node.annotation
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield node.optional_vars, node.context_expr


def _chain(node: ast.expr) -> list[str]:
    """Return the identifiers of ``a.b(...).c`` in order; "" stands for what has none."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, (ast.Call, ast.Subscript, ast.Await)):
            node = node.func if isinstance(node, ast.Call) else node.value
        else:
            return [name_of(node), *reversed(parts)]


def _arguments(call: ast.Call) -> Iterator[str]:
    """The identifiers among the arguments of ``call``, and the strings that are addresses."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, (ast.Name, ast.Attribute)):
            yield from _chain(value)
        elif isinstance(value, ast.Constant) and isinstance(value.value, str) and "://" in value.value:
            yield value.value.partition("://")[0]
    yield from (keyword.arg for keyword in call.keywords if keyword.arg)


def _says(meaning: re.Pattern[str], *identifiers: str) -> bool:
    return any(meaning.fullmatch(word) for text in identifiers for word in words_of(text))


def _says_it_is_remote(call: ast.Call, *, with_address: bool) -> bool:
    return _says(_SAYS_REMOTE, *_chain(call.func)) or (with_address and _says(_ADDRESS, *_arguments(call)))


def _is_http_call(call: ast.Call) -> bool:
    """Return True if ``call`` is ``client.get(url)`` or the like."""
    *_, owner, method = ("", *_chain(call.func))
    is_path = any(
        isinstance(value, ast.Constant) and str(value.value).startswith("/")
        for argument in call.args
        for value in ([*argument.values] if isinstance(argument, ast.JoinedStr) else [argument])[:1]
    )
    is_client = method in _HTTP_METHODS and _HTTP_CLIENTS.fullmatch("".join(words_of(owner)[-1:])) is not None
    return is_client and (is_path or _says(_ADDRESS, *_arguments(call)))


def _function_says_remote(function: Function) -> bool:
    names = (function.name, function.owner or "")
    return _says(_SAYS_REMOTE, *names) and not _says(_SAYS_LOCAL, *names)


def _is_own_machine(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _OWN_MACHINE.search(node.value) is not None
    return name_of(node) == "AF_UNIX"


def _caught_in(node: ast.AST, names: Names) -> list[str]:
    handlers = [inner for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler)]
    return [name for handler in handlers for name in names.exceptions(handler.type) or ()]
