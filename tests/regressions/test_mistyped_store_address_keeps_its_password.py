"""An address with a slip in it is refused or shown without the password that it holds."""

from __future__ import annotations

import pytest

pytest.importorskip("redis")

from stormproof._fleet.address import Address


@pytest.mark.parametrize(
    "url",
    [
        "redis:://user:hunter2@host:6379/0",
        "redis:user:hunter2@host/0",
        "redis:/user:hunter2@host:6379/0",
        "env:redis://user:hunter2@host/0",
        "redis+sentinel:://user:hunter2@host/mymaster/0",
    ],
)
def test_error_about_a_mistyped_address_has_no_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"^RedisStore: url") as caught:
        Address(url)
    assert "hunter2" not in str(caught.value)


def test_socket_file_with_misplaced_userinfo_is_shown_masked() -> None:
    shown = str(Address("unix:user:hunter2@/tmp/redis.sock"))
    assert shown == "unix://***@/tmp/redis.sock"


@pytest.mark.parametrize(
    "url", ["redis://h/" + "1" * 5000, "x" * 5000 + "://h", "env:" + "A" * 5000, "redis://h?db=" + "x" * 5000]
)
def test_refusal_is_short(url: str) -> None:
    with pytest.raises(ValueError, match=r"^RedisStore: url") as caught:
        Address(url)
    assert len(str(caught.value)) < 400


def test_mistyped_value_without_a_secret_is_shown() -> None:
    with pytest.raises(ValueError, match="database must be a whole number >= 0, got 'one'"):
        Address("redis://host/one")
