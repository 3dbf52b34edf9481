"""Fuzzing: every parser of Stormproof, fed with malformed input.

Each target (`targets`) is one parser with its rule: which errors it may raise, what its values must be
like, what must come back unchanged. Two feeders share the targets: Hypothesis in the suite
(tests/tools/test_fuzzing.py), and atheris, which is guided by coverage, in ``python -m
verification.fuzzing``.
"""
