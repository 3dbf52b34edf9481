"""Mutation testing of the rules that decide: every small change to one of them must turn a test red.

mutmut's operators make the changes (`generate`). A change is put in place of the function's code in a fork
of a pytest that has collected everything (`swap`, `session`), so nothing is imported twice, and the code
under test keeps its signatures, slots and tracebacks. Which tests reach a line is measured first.
"""
