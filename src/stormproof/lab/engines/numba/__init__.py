"""The compiled engine: a deliberate copy of the built-in rules, under a parity contract.

The contract: given the same numbers, a copy does the same operations on floats in the same order as its
original, so that it gives the same floats. From the same seed both engines draw the same numbers in the same
order, so that they give the same run, count for count. Percentiles, which are read from bins, and the last
digits of sums over many clients are excepted. A change of an original is a change of its copy.

Copies and originals (tests/lab/test_parity_contract.py holds this table to the code, and each rule to its
original; tests/lab/random_runs.py holds whole runs to each other):

    rules.wait_for        retry.backoff: Exponential.delay
    rules.total           budget.rules: Slices.total
    rules.roll            budget.rules: Slices.roll
    rules.add             budget.rules: Slices.add
    rules.settle          budget.budget: Budget._credit
    rules.balance_of      budget.budget: Budget._balance_of
    rules.withdraw        budget.budget: Budget.withdraw
    rules.credited        budget.budget: Budget.success
    rules.debited         budget.other_systems: ThrottleBudget.failure
    rules.reserve         budget.other_systems: RateBudget.reserve
    rules.tokens          limiter.rules.bucket: Bucket.tokens
    rules.take_token      limiter.rules.bucket: Bucket.reserve
    kernel.failed         retry.rules.decision: Course.next
    kernel.pays           retry.rules.decision: Course.next
    backend.offer         lab.model.backend: Backend.offer
    backend.serve         lab.model.service: FirstCome.serve
    backend._amount       lab.model.service: Work.amount
    backend._depth        lab.model.service: FirstCome.depth
    backend._finish       lab.model.timeline: Capacity.finish
    randomness.draw       random: Random.random
    randomness.gauss      random: Random.gauss
    randomness.spread     lab.model.spread: Spread.sampler

What is not in the table (the calendar of events, the records, the loop) copies nothing.
"""
