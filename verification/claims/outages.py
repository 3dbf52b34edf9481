"""Claims about what short outages do to the load."""

from __future__ import annotations

import stormproof as sp
from stormproof import lab
from stormproof.lab.scenarios import scenarios

from .experiments import crowd, received, retrying, simulate, thousands
from .model import Found, Topic, found
from .sources import CHAPTER, GUIDE, LESSON

topic = Topic("Outages as stories")


@topic.claim(
    "A hundred thousand clients and a failover",
    "100,000 clients that call once a second meet a 2 s failover at 0.5 s; without jitter all retry at 0.7, "
    "0.9, "
    "1.3, 2.1 s, and 100,000 at once hit the recovered service at 3.7 s.",
    GUIDE,
    slow=True,
)
def failover() -> Found:
    summary = scenarios["failover"].scaled(0.05).run(engine="exact").summary
    sent = scenarios["failover"].scenario.arrival_rps
    usual = sent * 0.05
    spread = {kind: round(summary[kind]["peak_rps_after"] / usual, 1) for kind in summary}
    naive = retrying(attempts=6, backoff=sp.Exponential(0.1, jitter="none"))
    at_once = simulate(naive, crowd(5000, 1.9, resolution=0.01))
    moments = [round(t - 1 + 0.6, 2) for t, v in received(at_once) if v]
    return found(
        '`scenarios["failover"].scaled(0.05).run()`, and the same number of clients failing at one instant, '
        "0.6 s",
        f"at one instant: attempts at {', '.join(f'{m:g}' for m in moments)} s. Calling once a second, each "
        "at its "
        "own moment: the recovering service sees "
        + ", ".join(f"{times:g} times the usual load ({kind})" for kind, times in spread.items()),
        spread["no jitter"] > 50,
        "The times are right for clients that fail at one instant. Clients that call once a second do not: "
        "the "
        "retries come as a wave of 2 s, not as a spike, and jitter alone does little about it. A budget "
        "does. "
        f"(The guide counts 200,000 requests per second from these clients; they send {sent:,.0f}.)",
        partly=moments[-1] == 3.7,
    )


@topic.claim(
    "A herd that never ends",
    "1,000 clients that all retry a second after a 503 keep breaking the server, for ever.",
    LESSON,
)
def waves() -> Found:
    place = lab.Scenario(
        clients=1000,
        arrival_rps=0,
        capacity_rps=500,
        queue=50,
        timeout=1,
        faults=[lab.Burst(1, 1000)],
        duration=60,
        resolution=0.1,
    )
    patient = retrying(attempts=None, within=100.0, backoff=sp.Constant(1))
    result = simulate(patient, place)
    waves = [round(v * 0.1) for _, v in received(result) if v]
    return found(
        "`lab.simulate`: a `Burst` of 1,000 calls on 500/s with 50 places to wait, retried every second",
        f"{len(waves)} waves of {', '.join(str(n) for n in waves[:3])}, ... {waves[-1]}: all "
        f"{result.successes:,} are served in {len(waves)} s, for {result.amplification:.1f} attempts each",
        result.successes < 500,
        "The waves stay together, as it says, but each is smaller by what the server could take.",
        partly=len(waves) > 5,
    )


@topic.claim(
    "Five attempts outlast a cold start",
    "Errors for 2 to 3 s after a restart: with five attempts most clients are served by the fifth, at about "
    "1.5 s.",
    GUIDE,
)
def cold_start() -> Found:
    shares, last = {}, sum(sp.Exponential(0.1).ceiling(n) for n in range(4))
    for jitter in ("none", "full"):
        retry = retrying(attempts=5, backoff=sp.Exponential(0.1, jitter=jitter))
        shares[jitter] = [simulate(retry, crowd(1000, lasts)).metrics["availability"] for lasts in (0.5, 2.0)]
    return found(
        "`lab.simulate`: 1,000 callers, five attempts from 100 ms, a backend that refuses for 0.5 and for 2 "
        "s",
        "; ".join(f"jitter {kind}: {a:.0%} and {b:.0%} are served" for kind, (a, b) in shares.items()),
        min(pair[1] for pair in shares.values()) > 0.5,
        f"The fifth attempt is made {last:g} s after the first at the latest, and after {last / 2:g} s on "
        "average with full jitter: the errors outlast it.",
    )


@topic.claim(
    "Nine percent of errors make 14 times the load",
    "9 % of the requests fail for 200 ms; callers that retry every 100 ms make it 14 times the usual load.",
    CHAPTER,
)
def fourteen() -> Found:
    place = lab.Scenario(
        clients=100,
        arrival_rps=5000,
        capacity_rps=50_000,
        faults=[lab.Errors(2, 0.2, rate=0.09)],
        duration=5,
        arrivals="even",
        resolution=0.05,
    )
    result = simulate(retrying(attempts=None, backoff=sp.Constant(0.1)), place)
    peak = result.peak_rps / 5000
    return found(
        "`lab.simulate`: 5,000 calls/s, `Errors(rate=0.09)` for 0.2 s, a retry every 0.1 s without end",
        f"the peak is {peak:.2f} times the usual load",
        peak > 10,
        "Only the failed calls come back, and of these again only the same share fails.",
    )


@topic.claim(
    "Immediate retries fill the server",
    "1,000 requests/s of 20 ms keep 20 in flight; 90 failed ones retried at once make it 110, then 200.",
    CHAPTER,
)
def in_flight() -> Found:
    flights = []
    for rate in (0.0, 0.09):
        place = lab.Scenario(
            clients=10, arrival_rps=1000, capacity_rps=1e6, latency=0.02, error_rate=rate, duration=20
        )
        result = simulate(retrying(attempts=None, backoff=sp.Constant(0)), place)
        flights.append(result.attempts / 20 * 0.02)
    return found(
        "`lab.simulate`: 1,000 calls/s, round trip 20 ms, 9 % errors retried at once; attempts/s times 20 ms",
        f"{flights[0]:.1f} in flight without errors, {flights[1]:.1f} with",
        flights[1] > 100,
        "20 in flight is right. But 90 is the number of failures in a second, and a retry, too, takes 20 ms "
        "only.",
        partly=abs(flights[0] - 20) < 1,
    )


@topic.claim(
    "25 million players retry in 100 ms",
    "A 100 ms hiccup makes the segment requests of all 25 million video players fail; naive retries put 25 "
    "million "
    "requests on the origin in 100 ms. With one jittered retry it was 1.8 million over 4 s.",
    CHAPTER,
)
def players() -> Found:
    scale = 0.0004
    story = scenarios["video-players"].scaled(scale)
    summary = story.run(engine="exact").summary
    one = summary["once, jittered, one in 30 s"]
    retried = (one["amplification"] - 1) * story.scenario.expected_calls / scale
    usual = scenarios["video-players"].scenario.arrival_rps
    return found(
        f'`scenarios["video-players"].scaled({scale}).run()`: a segment every 4 s for each of 10,000 players',
        f"scaled back: {thousands(retried)} players meet the hiccup, and retry once; the origin's peak is "
        f"{summary['three times at once']['peak_rps'] / scale / usual:.1f} times the usual load with three "
        "attempts at "
        f"once, {one['peak_rps'] / scale / usual:.2f} times with one jittered retry",
        retried > 20e6,
        f"In 100 ms only those fail that ask in these 100 ms: one in {25e6 / retried:.0f} if a player asks "
        "every four seconds. For all to fail each would have to ask ten times a second. The 1.8 million "
        f"cannot be checked; it is {1.8e6 / retried:.1f} times what such players send if each retries once.",
    )


@topic.claim(
    "One retry in 30 s for a segment",
    "A client-side cap of one retry per 30 s for the same segment holds the retries down, whatever fails.",
    CHAPTER,
)
def per_key() -> Found:
    players, segments, lasts = 5, 4, 89
    place = lab.Scenario(
        clients=players,
        arrival_rps=50,
        capacity_rps=1000,
        error_rate=1.0,
        duration=lasts,
        keys=segments,
        timeout=1,
    )
    limit = sp.keyed(sp.RateBudget(rate=1 / 30, burst=1), key=lambda segment: segment)
    free, capped = (simulate(retrying(attempts=3, budget=budget), place) for budget in (None, limit))
    bound = players * segments * (1 + lasts // 30)
    return found(
        f"`lab.simulate`: {players} players, {segments} segments, everything fails for {lasts} s; "
        "`keyed(RateBudget(rate=1/30, burst=1))`",
        f"{capped.attempts - capped.calls} retries, at most {bound} are allowed; without the cap "
        f"{free.attempts - free.calls:,}",
        capped.attempts - capped.calls <= bound,
    )


@topic.claim(
    "Retry-After makes room",
    "A server that answers a refusal with `Retry-After: 5` keeps its callers away for that long, which no "
    "schedule of "
    "their own can.",
    CHAPTER,
    LESSON,
)
def hinted() -> Found:
    results = {}
    for hint in (None, 5):
        place = crowd(1000, 4.0, outage=lab.Outage(1, 4.0, "fail", retry_after=hint))
        results[hint] = simulate(retrying(attempts=4), place)
    attempts = {hint: result.amplification for hint, result in results.items()}
    served = {hint: result.metrics["availability"] for hint, result in results.items()}
    return found(
        "`lab.simulate`: 1,000 callers at the beginning of a 4 s outage, four attempts, with and without a "
        "hint of 5 s",
        f"{attempts[None]:.2f} attempts per call and {served[None]:.0%} served without the hint, "
        f"{attempts[5]:.2f} and "
        f"{served[5]:.0%} with it",
        attempts[5] == 2 and served[5] == 1 and attempts[None] > 3,
    )
