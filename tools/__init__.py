"""Programs that contributors run: building, packaging, recording; imported by tests/tools and the build
alone."""
