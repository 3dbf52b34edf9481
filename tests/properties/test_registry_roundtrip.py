"""Writing is the inverse of loading: what `to_data` writes, a registry reads back as the same policy."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import stormproof as sp
from stormproof import presets
from stormproof._config.registry import Registry, load, to_data
from stormproof._config.schema import document
from stormproof._policy.checks import PolicyWarning
from stormproof._strategies.adaptive.limit import AdaptiveLimit
from stormproof._strategies.adaptive.rate import AdaptiveRate
from stormproof._strategies.chaos import Chaos
from stormproof._strategies.fallback import Fallback
from stormproof._strategies.limiter.pacer import Pacer
from stormproof._strategies.limiter.rate_limit import RateLimit
from stormproof._strategies.throttle import Throttle

jsonschema = pytest.importorskip("jsonschema")
VALIDATOR = jsonschema.Draft202012Validator(document())


def spans(low: float = 0.0, high: float = 1e6) -> Any:
    """Times in seconds: round ones, and any float."""
    return st.one_of(
        st.integers(int(low) + 1, int(high)),
        st.floats(max(low, 1e-9), high, exclude_min=True),
        st.integers(1, 5000).map(lambda n: n / 1000).filter(lambda s: low < s <= high),
    )


def maybe(values: Any) -> Any:
    return st.one_of(st.none(), values)


def some(**options: Any) -> Any:
    """A dict with any of these keywords, or none."""
    return st.fixed_dictionaries({}, optional=options)


shares = st.floats(0, 1, exclude_min=True)
counts = st.integers(1, 10**6)
names = st.text("abcdefgh-_. 0123456789üπ", min_size=1, max_size=8)
kinds = st.sampled_from(
    [ConnectionError, OSError, KeyError, json.JSONDecodeError, sp.CircuitOpen, sp.AttemptTimeout]
)


def classifier(listed: list[type[Exception]]) -> Any:
    judge = sp.transient.with_()
    for kind in listed:
        judge.register(kind, True)
    return judge


ons = st.one_of(
    st.just(sp.transient),
    kinds,
    st.lists(kinds, min_size=1, max_size=3, unique=True).map(tuple),
    st.lists(kinds, min_size=1, max_size=3, unique=True).map(classifier),
)
jitters = st.one_of(st.sampled_from(["none", "full", "equal"]), st.floats(0, 1).map(sp.Symmetric))


@st.composite
def capped(draw: Any, kind: Any, **more: Any) -> Any:
    base = draw(spans(high=1e5))
    options = draw(some(jitter=jitters, **more))
    cap = base * draw(st.floats(1, 100))
    return kind(base, cap=cap, **options)


@st.composite
def decorrelated(draw: Any) -> Any:
    base = draw(spans(high=1e5))
    return sp.Decorrelated(
        base, cap=base * draw(st.floats(1, 100)), clip=draw(st.sampled_from(["range", "sample"]))
    )


backoffs = st.one_of(
    capped(sp.Exponential, factor=st.floats(1, 100)),
    capped(sp.Linear),
    capped(sp.Fibonacci),
    capped(presets.HintedExponential, hint=st.sampled_from(["restart", "replace"])),
    decorrelated(),
    st.builds(sp.Constant, st.one_of(st.just(0), spans()), jitter=jitters),
    st.builds(sp.Schedule, st.lists(st.one_of(st.just(0), spans()), min_size=1, max_size=4), jitter=jitters),
    st.builds(presets.GrpcBackoff, spans(), spans(), st.floats(0.001, 1000)),
    st.builds(presets.PollyJitter, spans(), cap=maybe(spans())),
    st.builds(presets.AwsBackoff, spans(high=10), throttle_base=maybe(spans(high=10)), cap=spans(10, 100)),
)
budgets = st.one_of(
    some(ratio=st.floats(0, 10), burst=st.floats(0, 1e6), window=spans()).map(lambda o: sp.Budget(**o)),
    some(ratio=st.floats(0, 10), floor=st.floats(0, 1e6), window=spans()).map(lambda o: sp.WindowBudget(**o)),
    some(
        capacity=counts,
        retry_cost=counts,
        timeout_cost=counts,
        success_credit=counts,
        throttle_cost=maybe(counts),
    ).map(lambda o: sp.QuotaBudget(**o)),
    some(max_tokens=st.integers(1, 1000), token_ratio=st.floats(0.001, 10)).map(
        lambda o: sp.ThrottleBudget(**o)
    ),
    some(rate=st.one_of(st.just(float("inf")), st.floats(0, 1e6)), burst=counts, wait=st.booleans()).map(
        lambda o: sp.RateBudget(**o)
    ),
)
limiters = st.one_of(
    st.builds(sp.Limiter, st.one_of(st.just(float("inf")), st.floats(0, 1e6)), counts),
    st.builds(Pacer, st.floats(0.001, 1e6), counts),
)
retries = some(
    on=ons,
    attempts=counts,
    backoff=backoffs,
    within=maybe(spans()),
    budget=maybe(budgets),
    max_hint=st.one_of(st.just(float("inf")), spans()),
    late=st.sampled_from(["stop", "clip"]),
    retry_exhausted=st.booleans(),
).map(lambda o: sp.Retry(**o))
breakers = st.builds(
    lambda name, options: sp.Breaker(name=name, **options),
    st.one_of(st.just("p"), names),
    some(
        failure_ratio=shares,
        min_calls=counts,
        window=maybe(spans()),
        open_for=spans(),
        probes=counts,
        probe_timeout=maybe(spans()),
        consecutive=maybe(counts),
        slow_call=maybe(spans()),
        slow_ratio=shares,
        on=ons,
        exclude=ons,
        open_growth=st.floats(1, 100),
        open_max=spans(),
        ramp=spans(),
    ),
)
bulkheads = st.builds(
    lambda limit, queue, max_wait: sp.Bulkhead(
        limit, queue=queue, max_wait=max_wait if queue else 0, name="p"
    ),
    st.integers(1, 1000),
    st.integers(0, 10),
    maybe(spans()),
)
plain = st.recursive(
    st.one_of(st.booleans(), st.integers(-1000, 1000), st.floats(-10, 10), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
hedges = some(
    after=st.one_of(spans(), st.just("p95"), st.just("p99.9")), max=st.integers(2, 9), on=ons, budget=budgets
).map(lambda o: sp.Hedge(idempotent=True, **o))
chaos = st.one_of(
    st.builds(
        Chaos, fault=st.just(ConnectionError), latency=maybe(spans()), rate=st.floats(0, 1), name=maybe(names)
    ),
    st.builds(Chaos, outcome=plain.filter(lambda v: v is not None), rate=st.floats(0, 1)),
)
limits = st.sampled_from(
    [
        AdaptiveLimit(name="p"),
        AdaptiveLimit("aimd", decrease=0.7, timeout=2, name="p"),
        AdaptiveLimit("vegas", initial=30, min=2, max=300, smoothing=0.4, probe=9, name="mine"),
        AdaptiveLimit("gradient2", tolerance=2, long_window=5, queue=0, on=OSError, name="p"),
    ]
)
throttles = some(k=st.floats(1, 10), window=spans(), on=ons, min_calls=counts, max_rejection=shares).map(
    lambda o: Throttle(name="p", **o)
)
rates = some(
    max_wait=maybe(spans()), beta=st.floats(0.01, 0.99), scale=st.floats(0.1, 9), smoothing=shares
).map(lambda o: AdaptiveRate(name="p", **o))
strategies = [
    st.builds(sp.Deadline, spans(1000, 2000)),
    st.builds(Fallback, plain, on=ons),
    retries,
    hedges,
    breakers,
    st.builds(RateLimit, limiters, max_wait=maybe(st.one_of(st.just(0), spans())), cost=maybe(counts)),
    bulkheads,
    throttles,
    limits,
    rates,
    chaos,
    st.builds(sp.Timeout, spans(high=900), thread=st.booleans()),
]


@st.composite
def policies(draw: Any) -> sp.Policy:
    chosen = [draw(s) for s in strategies if draw(st.booleans())]
    if draw(st.booleans()):
        chosen = draw(st.permutations(chosen))
    if draw(st.booleans()):
        chosen.append(draw(breakers))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PolicyWarning)
            return sp.Policy(*chosen, name="p")
    except ValueError:
        reject()


def from_data(data: Any) -> sp.Policy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PolicyWarning)
        return Registry.from_data({"policies": {"p": data}})["p"]


def judges(policy: sp.Policy) -> list[Any]:
    """The classifiers, whose repr does not show the rules registered with them."""
    return [getattr(s, field) for s in policy.strategies for field in ("on", "exclude") if hasattr(s, field)]


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(policies())
def test_written_policy_reads_back_as_the_same_policy(policy: sp.Policy) -> None:
    data = to_data(policy)
    back = from_data(data)
    assert repr(back) == repr(policy)
    assert judges(back) == judges(policy)
    assert to_data(back) == data


@settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow])
@given(policies())
def test_written_policy_is_plain_data_and_fits_the_schema(policy: sp.Policy) -> None:
    data = to_data(policy)
    assert json.loads(json.dumps(data)) == data
    VALIDATOR.validate({"policies": {"p": data}})


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(policies())
def test_files_of_every_format_read_back(tmp_path: Any, policy: sp.Policy) -> None:
    yaml = pytest.importorskip("yaml")
    data = {"policies": {"p": to_data(policy)}}
    (tmp_path / "p.json").write_text(json.dumps(data), encoding="utf-8")
    # Escaped: PyYAML's own dump with allow_unicode loses the line break U+0085.
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    for name in ("p.json", "p.yaml"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PolicyWarning)
            assert repr(load(tmp_path / name, environ={})["p"]) == repr(policy)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.booleans()), min_size=1, max_size=5
    ),
    budgets,
)
def test_shared_objects_are_shared_after_reading_back(uses: list[tuple[str, str, bool]], own: Any) -> None:
    data = {
        "budgets": {"a": {}, "b": {"kind": "quota"}, "c": {"ratio": 0.5}},
        "limiters": {
            "a": {"rate": 1, "burst": 1},
            "b": {"rate": 2, "burst": 2},
            "c": {"kind": "pacer", "rate": 3, "burst": 3},
        },
        "policies": {
            f"p{n}": {
                "retry": {
                    "budget": budget
                    if shared
                    else to_data(sp.Policy(sp.Retry(budget=own)))["retry"]["budget"]
                },
                "rate_limit": limiter,
            }
            for n, (budget, limiter, shared) in enumerate(uses)
        },
    }
    registry = Registry.from_data(data)
    again = Registry.from_data(registry.dump())
    assert again.dump() == registry.dump()
    for name, (budget, limiter, shared) in zip(again, uses, strict=True):
        retry, limit = again[name].strategies
        assert (retry.budget is again.budgets[budget]) is shared
        assert limit.limiter is again.limiters[limiter]
