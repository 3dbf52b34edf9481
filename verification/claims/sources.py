"""Who says so. The first five are texts about retries; the others are what they cite."""

from __future__ import annotations

from .model import Source

GUIDE = Source("the Go guide", '"Exponential Backoff - Middle Level", a guide to retries in Go')
FORMULAS = Source(
    "the specification", '"Exponential Backoff - Specification", reference page of the Go guide'
)
LESSON = Source(
    "the lesson", '"Retry strategies: backoff, jitter, and thundering herd", a lesson on backends'
)
CARD = Source("the reference card", '"Retry with Exponential Backoff and Jitter", a reference card')
CHAPTER = Source(
    "the chapter", '"Retries: exponential backoff, jitter", a book chapter with the script retry_storm.py'
)
AWS = Source("AWS", 'M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, and its simulator')
AWS_SDK = Source("the AWS SDKs", "the standard retry mode of the AWS SDKs, as in botocore")
SRE = Source(
    "the SRE book", "Google, Site Reliability Engineering: Handling Overload, Addressing Cascading Failures"
)
HOTOS = Source("HotOS 2021", 'Bronson et al., "Metastable Failures in Distributed Systems"')
FINAGLE = Source("Finagle", "RetryBudget of Twitter's Finagle, which Linkerd follows")
GRPC = Source("gRPC", "gRFC A6, client retries")
TAIL = Source("The Tail at Scale", 'Dean and Barroso, "The Tail at Scale", CACM 2013')
THEORY = Source("textbooks", "what queueing and probability theory say, without a simulation")
SPEC = Source("Stormproof", "what Stormproof's own documentation says of its defaults")

EVERY = (
    GUIDE,
    FORMULAS,
    LESSON,
    CARD,
    CHAPTER,
    AWS,
    AWS_SDK,
    SRE,
    HOTOS,
    FINAGLE,
    GRPC,
    TAIL,
    THEORY,
    SPEC,
)
