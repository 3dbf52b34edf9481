"""Addresses of a store: read without connecting, and told to people without their secrets."""

from __future__ import annotations

from stormproof._fleet.address import Address

from ..model import Target, must, text

#: Stands for a secret wherever an address can hold one.
SECRET = "hunter2pw"


def check_address(data: bytes) -> None:
    """An address or a ValueError that names its owner; neither tells a password that stands before the @."""
    url = text(data)
    try:
        said = str(Address(url))
    except ValueError as error:
        said = str(error)
        must(said.startswith("RedisStore: url"), f"an error without owner and field: {said}")
        must(len(said) < 1000, "an error must not repeat a long text")
    if _is_userinfo(url):
        must(SECRET not in said, f"tells the password: {said}")


def _is_userinfo(url: str) -> bool:
    """Whether the secret stands once, and right before the last @ of what comes before any path."""
    scheme, found, rest = url.partition("://")
    where = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    userinfo = where.rpartition("@")[0]
    plain = url.isprintable() and SECRET not in scheme and url.count(SECRET) == 1
    return plain and bool(found) and userinfo.endswith(f":{SECRET}")


TARGETS = (
    Target(
        "store-address",
        "addresses of a store",
        check_address,
        (
            f"redis://user:{SECRET}@host:6379/0?socket_timeout=1",
            f"rediss://:{SECRET}@[::1]:6380/3?ssl_cert_reqs=none",
            f"redis+sentinel://u:{SECRET}@a:26379,b,c:1/mymaster/2",
            f"redis+cluster://:{SECRET}@node?max_connections=5&health_check_interval=3",
            "valkeys+sentinel://h/s",
            f"unix://u:{SECRET}@/tmp/redis.sock?db=1",
            "env:NO_SUCH_VARIABLE_HERE",
            "redis://host:99999/0",
            b"\xfe\x0c1",
        ),
        (
            "redis://",
            "rediss://",
            "valkey://",
            "unix://",
            "redis+sentinel://",
            "redis+cluster://",
            "env:",
            "@",
            ":",
            "/",
            "?",
            "&",
            "=",
            "#",
            "[",
            "]",
            ",",
            "%",
            "%00",
            "%2F",
            SECRET,
            "0",
            "65536",
            "-1",
            "db",
            "port",
            "host",
            "protocol",
            "ssl",
            "username",
            "password",
            "retry_on_timeout",
            "socket_keepalive",
            "decode_responses",
            "client_name",
            "timeout",
            "٣",
            "\u2100",
        ),
        longest=200,
        slowest_s=2.0,
    ),
)
