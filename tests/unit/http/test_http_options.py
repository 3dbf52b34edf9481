"""The options of an HTTP client, and what a request may say for itself."""

from __future__ import annotations

import pickle

import pytest

from stormproof._http.options import ABSENT, CREDENTIALS, ClientOptions, RequestOverrides


def test_default_options_are_the_documented_ones() -> None:
    options = ClientOptions()
    assert (options.idempotency_key, options.key_header) == (None, "Idempotency-Key")
    assert (options.buffer, options.drain, options.replay) == (65536, 65536, 16 * 2**20)
    assert (options.statuses, options.methods) == (None, None)
    assert (options.reauth, options.reauth_on) == (None, {401})
    assert (options.timeout_header, options.attempt_header) == ("X-Request-Timeout-Ms", "X-Request-Attempt")
    assert "authorization" in options.credentials and "cookie" in options.credentials


def test_copy_and_a_repr_keep_every_option() -> None:
    options = ClientOptions(
        "auto", "X-Key", 0, None, 1, [409], ["get"], None, [401, 403], None, None, ["X-A"]
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert eval(repr(options), {"ClientOptions": ClientOptions, "frozenset": frozenset}) == options
    assert options.replace(buffer=5).key_header == "X-Key"
    assert (options.methods, options.credentials) == ({"GET"}, {"x-a"})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        # A fixed key would make a server take every request of the client for the first one.
        ("idempotency_key", "abc", "idempotency_key must be one of 'auto'"),
        ("idempotency_key", True, "idempotency_key"),
        ("key_header", "", "key_header must be a header name"),
        ("key_header", "a b", "key_header must be a header name"),
        ("key_header", None, "key_header must be a header name"),
        ("timeout_header", "X\r\nY", "timeout_header must be a header name"),
        ("attempt_header", 3, "attempt_header must be a header name"),
        ("buffer", -1, "buffer must be >= 0"),
        ("buffer", 1.5, "buffer must be a whole number"),
        ("buffer", True, "buffer must be a whole number"),
        ("replay", -1, "replay must be >= 0"),
        ("drain", float("nan"), "drain must be a whole number"),
        ("statuses", 503, "ClientOptions: statuses must be a collection"),
        ("statuses", [42], "statuses must hold whole numbers"),
        ("methods", "GET", "ClientOptions: methods must be a collection"),
        ("reauth", 5, "reauth must be callable or None"),
        ("reauth_on", [True], "ClientOptions: reauth_on must hold whole numbers"),
        ("reauth_on", 401, "ClientOptions: reauth_on must be a collection"),
        ("credentials", "authorization", "credentials must be a collection"),
        ("credentials", ["a:b"], "credentials must be a header name"),
    ],
)
def test_bad_options_are_refused_by_name(field: str, value: object, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        ClientOptions(**{field: value})  # type: ignore[arg-type]
    assert ", got " in str(caught.value)


def test_options_are_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        ClientOptions().buffer = 3


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([("retry", False)], "must be a mapping"),
        ({"retries": 3}, "a request has no option 'retries'"),
        ({"retry": 0}, "retry must be True or False, got 0"),
        ({"policy": "fast"}, "policy must be a Policy, got 'fast'"),
        ({"idempotency_key": ""}, "idempotency_key must be 1 to 255"),
        ({"idempotency_key": "a\nb"}, "idempotency_key must be 1 to 255"),
        ({"idempotency_key": "x" * 256}, "idempotency_key must be 1 to 255"),
        ({"idempotency_key": 7}, "idempotency_key must be 1 to 255"),
    ],
)
def test_invalid_request_override_is_refused(overrides: object, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        RequestOverrides(overrides)  # type: ignore[arg-type]


@pytest.mark.parametrize("overrides", [{"idempotency_key": "s3cret\n"}, [("idempotency_key", "s3cret")]])
def test_error_about_a_key_does_not_contain_it(overrides: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        RequestOverrides(overrides)  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)


def test_empty_request_overrides_keep_the_clients_options() -> None:
    overrides = RequestOverrides({})
    assert (overrides.policy, overrides.retry) == (None, True)
    assert overrides.key is ABSENT
    assert RequestOverrides({"idempotency_key": None}).key is None


def test_credentials_are_lower_case() -> None:
    assert all(name == name.lower() for name in CREDENTIALS)
