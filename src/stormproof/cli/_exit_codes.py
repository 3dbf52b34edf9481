"""The exit codes of every command; `stormproof.cli` says what each means."""

OK, NEGATIVE, USAGE, INTERRUPTED = 0, 1, 2, 130
