"""The clients' own test suites, run plain and with a policy of ours in every client."""
