"""The same small experiments run on Holdfast and on other libraries: `python -m rivals`.

Read `model.py` (what a probe is), then `probes/` (the experiments and their rules), then `setups/`
(each library, set up as its own documentation says). `run.py` runs every cell in a process of its own.
"""
