"""`make bench`: what a call costs with Stormproof, next to a hand-written loop and other libraries.

Reading order: `model` (cases, groups, bars), `suites/` (what is measured), `contenders` and
`compositions` (how each library is set up), `call_timing`, `processes` and `memory` (how it is
measured), `run` and `render`.
A new suite is a module in `suites/` with a ``GROUPS`` list, named in ``suites.SUITES``.
"""
