"""Policies as data: from a file to objects and back.

The way of a file: `sources` reads it and remembers the line of every key, `overrides` lays the
environment over it, `build` turns it into objects by the table in `catalog`, `write` goes the other
way. `stormproof._config.schema` publishes the same table as a JSON Schema.
"""
