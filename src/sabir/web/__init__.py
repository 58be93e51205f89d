"""The page at ``/``: static files that speak only the public HTTP API. Served by ``sabir.doors.web``."""
