"""Published claims about retries, each with a function that runs it and says whether it holds.

``python -m verification.claims`` runs all of them and writes ``docs/claims.md`` and the plots in
``docs/images``; with
the name of a claim it runs that one and prints it. Seeds are fixed: the page is the same on every run.
"""
