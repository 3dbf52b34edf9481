"""The draft of an attempt: changing where it goes, and what does not go along."""

from __future__ import annotations

import pytest

from stormproof._http.draft import Draft, netloc, origin
from stormproof._http.headers import Fields, announced
from stormproof._http.options import CREDENTIALS

SECRETS = [("Authorization", "Bearer s"), ("COOKIE", "c=1"), ("X-Api-Key", "k"), ("Accept", "*/*")]


def make_draft(url: str = "https://a.example/p?q=1", headers: list[tuple[str, str]] | None = None) -> Draft:
    own = [("Host", "a.example"), *SECRETS] if headers is None else headers
    return Draft(2, "GET", url, own, CREDENTIALS)


@pytest.mark.parametrize(
    "url",
    [
        "https://b.example/p",
        "http://a.example/p",
        "https://a.example:8443/p",
        "https://a.example.evil/p",
        "https://a.example@b.example/p",
    ],
)
def test_another_origin_gets_no_credentials(url: str) -> None:
    draft = make_draft()
    draft.url = url
    assert set(draft.headers) == {"Host", "Accept"}
    assert draft.moved
    assert draft.url == url


@pytest.mark.parametrize(
    "url", ["https://a.example/other", "https://A.EXAMPLE:443/p", "https://a.example:443/"]
)
def test_draft_moved_within_its_origin_keeps_credentials(url: str) -> None:
    draft = make_draft()
    draft.url = url
    assert draft.headers.pairs == [("Host", "a.example"), *SECRETS]
    assert not draft.moved


def test_header_set_after_the_move_is_sent() -> None:
    draft = make_draft()
    draft.headers["Authorization"] = "for a"
    draft.host = "b.example:9000"
    assert draft.url == "https://b.example:9000/p?q=1"
    assert "authorization" not in draft.headers
    draft.headers["Authorization"] = "for b"
    assert draft.headers["AUTHORIZATION"] == "for b"


def test_removed_credentials_stay_removed_after_a_return_to_the_first_origin() -> None:
    draft = make_draft()
    draft.host = "b.example"
    draft.host = "a.example"
    assert "authorization" not in draft.headers
    assert not draft.moved


def test_host_header_follows_unless_it_is_the_callers_own() -> None:
    draft = make_draft(headers=[("Host", "a.example:443")], url="https://a.example:443/")
    assert draft.host == "a.example"
    draft = make_draft()
    draft.host = "b.example:444"
    assert draft.headers["host"] == "b.example:444"
    draft = make_draft(headers=[("Host", "virtual.example")])
    draft.host = "10.0.0.2"
    assert draft.headers["host"] == "virtual.example"


@pytest.mark.parametrize(
    "url", ["", "/p", "ftp://b/", "https://", "https://b:99999/", "https://[b/", "b.example"]
)
def test_relative_url_is_refused(url: str) -> None:
    draft = make_draft()
    with pytest.raises(ValueError, match="url must be absolute"):
        draft.url = url
    assert (draft.url, draft.headers["authorization"]) == ("https://a.example/p?q=1", "Bearer s")


def test_url_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(TypeError, match="url must be a string, got a int"):
        make_draft().url = 5  # type: ignore[assignment]


@pytest.mark.parametrize("host", ["", "b/c", "u:p@b", "b?x", "b#f", "b c", "b\r\nX: y"])
def test_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="host must be a host") as caught:
        make_draft().host = host
    assert "u:p" not in str(caught.value)


def test_host_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(TypeError, match="host must be a string, got a int"):
        make_draft().host = 5  # type: ignore[assignment]


def test_repr_contains_no_secrets() -> None:
    draft = make_draft("https://user:pw@a.example/p?token=t")
    assert repr(draft) == "<draft 2: GET a.example>"
    assert repr(draft.headers) == "<headers Host, Authorization, COOKIE, X-Api-Key, Accept>"


def test_origin_is_normalised() -> None:
    assert origin("HTTPS://Example.com/") == ("https", "example.com", 443)
    assert origin("http://[::1]:8000/x") == ("http", "::1", 8000)
    assert origin("mailto:x@y") is None
    assert netloc("http://u@h:80/") == "h"
    assert netloc("https://h:80/") == "h:80"


# Header fields.


def test_fields_are_case_insensitive_and_keep_their_order() -> None:
    fields = Fields([("B", "1"), ("a", "2"), ("b", "3")])
    assert fields["b"] == "1, 3"
    assert (len(fields), list(fields)) == (2, ["B", "a", "b"])
    fields["b"] = "4"
    assert fields.pairs == [("B", "4"), ("a", "2")]
    fields["C"] = "5"
    del fields["A"]
    assert fields.pairs == [("B", "4"), ("C", "5")]
    assert fields.get("a") is None
    assert 5 not in fields
    with pytest.raises(KeyError):
        del fields["a"]


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b"])
def test_field_is_one_line_and_the_error_does_not_repeat_it(value: str) -> None:
    with pytest.raises(ValueError, match="'X-A' must be one line") as caught:
        Fields()["X-A"] = value
    assert value not in str(caught.value)


def test_header_field_of_bytes_is_refused() -> None:
    with pytest.raises(TypeError, match="must be strings"):
        Fields()["X-A"] = b"secret"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("pairs", "length"),
    [
        ([(b"Content-Length", b"12")], 12),
        ([("content-length", "0")], 0),
        ([("X", "1"), ("CONTENT-LENGTH", "3")], 3),
        ([], None),
        ([("content-type", "x"), ("content-md5", "1")], None),
        ([("content-length", "-1")], None),
        ([("content-length", "1, 1")], None),
        ([("content-length", "")], None),
        ([("content-length", "9" * 5000)], None),
    ],
)
def test_announced_length_is_read(pairs: list[tuple[str, str]], length: int | None) -> None:
    assert announced(pairs) == length
