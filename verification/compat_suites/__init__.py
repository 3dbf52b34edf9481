"""The test suites of the libraries that ``stormproof.compat`` stands in for, run against our modules."""
