"""The suites behind ``sabir check``: they test any server clause by clause, with the bytes as evidence."""
