"""What every HTTP client shares: one exchange of requests and answers under a policy.

A client library is a `port` (how to send, read, close). `client.Client` runs the user's policy over
`attempt.attempt`, which sends one request and judges what comes back; `exchange.Exchange` is the
state of one request on its way: what may be sent again, and what the caller gets in the end. Nothing
here sleeps or reads a clock of its own; only `aiohttp_port` and `urllib3_streams` import a client library.
"""
