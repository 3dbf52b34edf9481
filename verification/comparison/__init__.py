"""The same small experiments run on Stormproof and on other libraries: `python -m verification.comparison`.

Read `model.py` (what a probe is), then `probes/` (the experiments and their rules), then `setups/`
(each library, set up as its own documentation says). `run.py` runs every cell in a process of its own.
"""
