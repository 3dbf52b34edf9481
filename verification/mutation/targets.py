"""What is mutated, and which tests are asked."""

from __future__ import annotations

#: The modules that decide, under src/stormproof: each is given the time and the outcome, and decides. Those
#: that carry a decision out (drivers, clients, stores, the command line, and the classes around a rule that
#: stands in a module of its own, such as the limiter around `rules.bucket`) are not among them.
MODULES = (
    "_strategies/retry/call.py",
    "_strategies/retry/rules/decision.py",
    "_classify/on_clause.py",
    "_classify/classifier.py",
    "_classify/verdict.py",
    "_classify/server_hints.py",
    "_strategies/retry/backoff.py",
    "_strategies/retry/rules/waits.py",
    "_strategies/budget/allowance.py",
    "_strategies/budget/budget.py",
    "_strategies/budget/rules.py",
    "_strategies/budget/other_systems.py",
    "_strategies/breaker/rules/circuit.py",
    "_strategies/breaker/ticket.py",
    "_strategies/limiter/rules/bucket.py",
    "_strategies/limiter/pacer.py",
    "_strategies/limiter/rules/leases.py",
    "_primitives/rates.py",
    "_primitives/durations.py",
    "_context/deadlines.py",
    "_strategies/deadline.py",
    "_strategies/throttle.py",
    "_strategies/adaptive/rules/limits.py",
    "_strategies/adaptive/rules/cubic.py",
)

#: Functions that decide nothing: they join a thing to its store; tests/integration/fleet runs them with a
#: real one.
WIRING = {
    "_strategies/budget/budget.py": ("Budget._join",),
    "_strategies/budget/other_systems.py": ("_shared_limiter",),
}

#: The tests that are about a module's rule and nothing else; they are asked before the others.
FIRST = {
    "_strategies/retry/call.py": (
        "tests/unit/strategies/retry/test_retried_call.py",
        "tests/unit/strategies/retry/test_decision.py",
        "tests/unit/classify/test_exhaustion.py",
        "tests/regressions/test_attempt_time_is_not_the_calls_time.py",
        "tests/regressions/test_duration_of_a_timed_out_call_is_reported.py",
        "tests/regressions/test_failed_call_raises_its_own_error.py",
        "tests/regressions/test_failure_surfaces_behind_a_refusal.py",
        "tests/regressions/test_mark_does_not_outlive_its_call.py",
        "tests/regressions/test_marks_survive_what_wraps_an_error.py",
        "tests/regressions/test_nested_layers_do_not_multiply.py",
        "tests/regressions/test_refusal_names_attempts_and_reason.py",
        "tests/regressions/test_result_is_judged_inside_blocks.py",
        "tests/regressions/test_retry_asks_its_own_circuit_before_it_sleeps.py",
        "tests/regressions/test_users_cause_is_kept.py",
    ),
    "_strategies/retry/rules/decision.py": (
        "tests/unit/strategies/retry/test_course.py",
        "tests/unit/strategies/retry/test_decision.py",
    ),
    "_classify/on_clause.py": (
        "tests/unit/classify/test_on_clause_rules.py",
        "tests/unit/classify/test_on_clause.py",
    ),
    "_classify/server_hints.py": (
        "tests/unit/classify/test_quota_headers.py",
        "tests/unit/classify/test_classifier_memory.py",
        "tests/unit/classify/test_server_hint_edges.py",
        "tests/unit/classify/test_server_hints.py",
    ),
    "_strategies/budget/allowance.py": (
        "tests/unit/strategies/budget/test_budget_edges.py",
        "tests/unit/strategies/budget/test_budget_parts.py",
        "tests/unit/strategies/budget/test_budget_rules.py",
        "tests/unit/primitives/test_option_errors.py",
    ),
    "_strategies/budget/budget.py": (
        "tests/unit/strategies/budget/test_budget_edges.py",
        "tests/unit/strategies/budget/test_budget_parts.py",
        "tests/unit/strategies/budget/test_budget_rules.py",
        "tests/unit/primitives/test_option_errors.py",
    ),
    "_strategies/budget/rules.py": (
        "tests/unit/strategies/budget/test_budget_edges.py",
        "tests/unit/strategies/budget/test_budget_parts.py",
        "tests/unit/strategies/budget/test_budget_rules.py",
    ),
    "_strategies/budget/other_systems.py": (
        "tests/unit/strategies/budget/test_budget_edges.py",
        "tests/unit/strategies/budget/test_shared_rate_budget.py",
        "tests/unit/strategies/budget/test_budget_parts.py",
        "tests/unit/strategies/budget/test_budget_rules.py",
        "tests/unit/primitives/test_option_errors.py",
        "tests/unit/strategies/budget/test_budgets.py",
    ),
    "_strategies/retry/backoff.py": (
        "tests/unit/strategies/retry/test_backoff_short_way.py",
        "tests/unit/strategies/retry/test_backoff_rules.py",
        "tests/unit/strategies/retry/test_backoff.py",
        "tests/unit/primitives/test_option_errors.py",
    ),
    "_strategies/retry/rules/waits.py": (
        "tests/unit/strategies/retry/test_backoff_rules.py",
        "tests/unit/strategies/retry/test_backoff.py",
        "tests/unit/primitives/test_option_errors.py",
    ),
    "_strategies/breaker/rules/circuit.py": (
        "tests/unit/strategies/breaker/test_circuit_retune.py",
        "tests/unit/strategies/breaker/test_breaker_rules.py",
    ),
    "_strategies/limiter/rules/bucket.py": (
        "tests/unit/strategies/limiter/test_line_rules.py",
        "tests/unit/strategies/limiter/test_limiter_rules.py",
    ),
    "_strategies/limiter/pacer.py": (
        "tests/unit/strategies/limiter/test_line_rules.py",
        "tests/unit/strategies/limiter/test_timetable_rules.py",
        "tests/unit/strategies/limiter/test_pacer.py",
    ),
    "_strategies/adaptive/rules/cubic.py": ("tests/unit/strategies/limiter/test_timetable_rules.py",),
    "_context/deadlines.py": (
        "tests/unit/context/test_policies_off.py",
        "tests/unit/context/test_deadline_scope_rules.py",
    ),
    "_strategies/throttle.py": (
        "tests/unit/strategies/test_throttle_retune.py",
        "tests/unit/strategies/test_throttle_rules.py",
    ),
    "_strategies/adaptive/rules/limits.py": (
        "tests/unit/strategies/test_throttle_retune.py",
        "tests/unit/strategies/adaptive/test_adaptive_limit_rules.py",
        "tests/unit/strategies/adaptive/test_adaptive_limit.py",
    ),
    "_classify/classifier.py": (
        "tests/unit/classify/test_classifier_memory.py",
        "tests/unit/classify/test_classifier_rules.py",
        "tests/unit/classify/test_classifier.py",
    ),
    "_strategies/limiter/rules/leases.py": (
        "tests/unit/strategies/limiter/test_line_rules.py",
        "tests/unit/strategies/limiter/test_lease_rules.py",
        "tests/unit/strategies/limiter/test_leases.py",
    ),
}

#: Tests of rules, which need no server and no process of their own.
TESTS = (
    "tests/unit/classify",
    "tests/unit/context",
    "tests/unit/policy",
    "tests/unit/primitives",
    "tests/unit/strategies",
    "tests/properties",
    "tests/regressions",
    "tests/faults/test_bad_numbers.py",
    "tests/faults/test_clock_jumps.py",
    "tests/faults/test_odd_exceptions.py",
    "tests/faults/test_redis_away.py",
)

#: About other things than the rules, and slow.
LEFT_OUT = (
    "tests/regressions/test_aiohttp_*",
    "tests/regressions/test_asgi_*",
    "tests/regressions/test_celery_*",
    "tests/regressions/test_ctrl_c_*",
    "tests/regressions/test_grpc_*",
    "tests/regressions/test_http*",
    "tests/regressions/test_lab_*",
    "tests/regressions/test_lint_*",
    "tests/regressions/test_output_*",
    "tests/regressions/test_requests_*",
    "tests/regressions/test_urllib3_*",
    "tests/regressions/test_wrong_usage_*",
    "tests/properties/test_backoff_distributions.py",
    "tests/properties/test_driver_event_parity.py",
    "tests/properties/test_idempotency_machine.py",
    "tests/properties/test_registry_roundtrip.py",
    "tests/properties/test_bulkhead_machine.py",
    "tests/unit/strategies/bulkhead/*",
    "tests/unit/strategies/hedge/*",
    "tests/unit/strategies/test_chaos.py",
    "tests/properties/test_breaker_invariants.py",
    "tests/properties/test_budget_invariants.py",
    "tests/properties/test_bulkhead_invariants.py",
    "tests/properties/test_cancellation_invariants.py",
    "tests/properties/test_clock_jump_invariants.py",
    "tests/properties/test_deadline_invariants.py",
    "tests/properties/test_event_log_invariants.py",
    "tests/properties/test_fleet_invariants.py",
    "tests/properties/test_hedge_invariants.py",
    "tests/properties/test_limiter_invariants.py",
    "tests/properties/test_retry_invariants.py",
    "tests/unit/policy/test_leaks.py",
    "tests/regressions/test_decorator_keeps_types.py",
    "tests/regressions/test_import_is_cheap.py",
    "tests/regressions/test_policies_can_be_pickled.py",
)

#: A test that takes longer than this is not asked: there are quicker ones for every rule.
SLOWEST_S = 3.0
#: Hypothesis makes at most this many examples of a test, always the same ones.
EXAMPLES = 25
