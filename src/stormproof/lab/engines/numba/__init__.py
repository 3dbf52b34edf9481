"""The compiled engine: a deliberate copy of the rules, held to them by tests/lab."""
