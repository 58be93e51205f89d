"""A small NLIP server that is right, written from the standard's text without any of Sabir's code, and its faults."""
