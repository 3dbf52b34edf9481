"""Shared by all HTTP clients: one exchange of requests and responses under a policy.

A client library is a `port` (how to send, read, close). `client.Client` runs the user's policy over
`attempt.attempt`, which sends one request and judges what comes back; `exchange.Exchange` is the
state of one request on its way, `repeat_rules` say what may be sent again, `final_answer` what the caller
gets in the end, and `httpcore_pool` repairs what an attempt that was cut off leaves behind. Nothing
here sleeps or reads a clock of its own; only `aiohttp_port` and `urllib3_streams` import a client library.
"""
