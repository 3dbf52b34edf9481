"""Runs lint on packages of PyPI and joins its findings with the verdicts of those who read the code."""
