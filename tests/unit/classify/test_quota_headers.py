"""`RateLimit` over several headers and with odd parameters; the shortest date there is."""

from __future__ import annotations

from stormproof._classify.server_hints import http_date, retry_after


def test_quotas_of_repeated_headers_are_read_one_by_one() -> None:
    headers = [("RateLimit", '"hour";r=0;t=30'), ("RateLimit", '"day";r=5;t=900')]
    assert retry_after(headers) == 30.0
    assert retry_after(headers[::-1]) == 30.0
    assert retry_after([("RateLimit", '"hour";r=5;t=30'), ("RateLimit", 'r=0;t=900;"day"')]) == 900.0


def test_parameter_without_a_value_replaces_an_earlier_one() -> None:
    # As in every structured field, where the last one of a name counts.
    assert retry_after({"RateLimit": '"hour";r=0;t=30'}) == 30.0
    assert retry_after({"RateLimit": '"hour";r=0;t=30;t'}) is None
    assert retry_after({"RateLimit": '"hour";r=0;r;t=30'}) is None


def test_date_with_one_space_before_its_day_is_read() -> None:
    now = 784_111_777.0
    assert http_date("Sun Nov 6 08:49:37 1994", now) == now
    assert http_date("Sun Nov  6 08:49:37 1994", now) == now
