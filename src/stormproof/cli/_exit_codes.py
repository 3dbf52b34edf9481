"""The exit codes of every command; `stormproof.cli` says what each means."""

OK, NEGATIVE, FAILED, INTERRUPTED = 0, 1, 2, 130
