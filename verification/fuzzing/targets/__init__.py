"""The parsers by family: what each is held to, and what to begin with."""
