"""The exit codes of every command; `stormproof.cli` explains each."""

OK, NEGATIVE, FAILED, INTERRUPTED = 0, 1, 2, 130
