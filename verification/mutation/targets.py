"""What is mutated, and which tests are asked."""

from __future__ import annotations

#: The modules that decide, under src/holdfast: each is told the time and the outcome, and answers. Those
#: that carry a decision out (drivers, clients, stores, the command line, and the classes around a rule that
#: stands in a module of its own, such as the limiter around `bucket`) are not among them.
MODULES = (
    "loop.py",
    "judge.py",
    "classify.py",
    "hints.py",
    "backoff.py",
    "waits.py",
    "budget.py",
    "quotas.py",
    "circuit.py",
    "tickets.py",
    "bucket.py",
    "pacer.py",
    "leases.py",
    "rates.py",
    "durations.py",
    "deadlines.py",
    "throttle.py",
    "limits.py",
    "cubic.py",
)

#: Functions that decide nothing: they join a thing to its store, and tests/fleet runs them with a real one.
WIRING = {
    "budget.py": ("Budget._join",),
    "quotas.py": ("_shared_limiter",),
}

#: The tests that are about a module's rule and nothing else; they are asked before the others.
FIRST = {
    "loop.py": ("tests/unit/test_loop_rule.py",),
    "judge.py": ("tests/unit/test_judge.py",),
    "hints.py": ("tests/unit/test_hint_edges.py", "tests/unit/test_hints.py"),
    "budget.py": ("tests/unit/test_budget_rule.py", "tests/unit/test_option_errors.py"),
    "quotas.py": (
        "tests/unit/test_budget_rule.py",
        "tests/unit/test_option_errors.py",
        "tests/unit/test_budgets.py",
    ),
    "backoff.py": (
        "tests/unit/test_backoff_rule.py",
        "tests/unit/test_backoff.py",
        "tests/unit/test_option_errors.py",
    ),
    "waits.py": (
        "tests/unit/test_backoff_rule.py",
        "tests/unit/test_backoff.py",
        "tests/unit/test_option_errors.py",
    ),
    "circuit.py": ("tests/unit/test_circuit_rule.py",),
    "bucket.py": ("tests/unit/test_bucket_rule.py",),
    "pacer.py": ("tests/unit/test_timetable_rule.py", "tests/unit/test_pacer.py"),
    "cubic.py": ("tests/unit/test_timetable_rule.py",),
    "deadlines.py": ("tests/unit/test_scope_rule.py",),
    "throttle.py": ("tests/unit/test_throttle_rule.py",),
    "limits.py": ("tests/unit/test_limits_rule.py", "tests/unit/test_adaptive_limit.py"),
    "classify.py": ("tests/unit/test_classify_rule.py", "tests/unit/test_classify.py"),
    "leases.py": ("tests/unit/test_lease_rule.py", "tests/unit/test_leases.py"),
}

#: Tests that need no server and no process of their own.
TESTS = (
    "tests/unit",
    "tests/property",
    "tests/stateful",
    "tests/issues",
    "tests/faults/test_bad_numbers.py",
    "tests/faults/test_clock_jumps.py",
    "tests/faults/test_closed_early.py",
    "tests/faults/test_hooks.py",
    "tests/faults/test_odd_exceptions.py",
)

#: About other things than the rules, and slow.
LEFT_OUT = (
    "tests/unit/test_bench.py",
    "tests/unit/test_bench_meters.py",
    "tests/unit/test_bench_talks.py",
    "tests/unit/test_cli_demo.py",
    "tests/unit/test_cli_explain.py",
    "tests/unit/test_cli_fleet.py",
    "tests/unit/test_cli_lint.py",
    "tests/unit/test_cli_options.py",
    "tests/unit/test_cli_run.py",
    "tests/unit/test_cli_simulate.py",
    "tests/unit/test_import_rules.py",
    "tests/unit/test_leaks.py",
    "tests/unit/test_mutants.py",
    "tests/unit/test_packaging.py",
    "tests/unit/test_proof.py",
    "tests/unit/test_public_names.py",
    "tests/unit/test_rivals.py",
    "tests/unit/test_skip_rules.py",
    "tests/issues/test_decorator_keeps_types.py",
    "tests/issues/test_import_is_cheap.py",
    "tests/issues/test_policies_can_be_pickled.py",
)

#: A test that takes longer than this is not asked: there are quicker ones for every rule.
SLOWEST_S = 3.0
#: Hypothesis makes at most this many examples of a test, always the same ones.
EXAMPLES = 25
