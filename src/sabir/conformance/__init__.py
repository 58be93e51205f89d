"""The suites behind ``sabir check``: what anybody's server does, clause by clause, with the bytes as evidence."""
