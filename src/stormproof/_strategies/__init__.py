"""The strategies of a policy: a folder each, or a file for a small one. Files called rules are pure."""
