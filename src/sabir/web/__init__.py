"""The page at ``/``: static files that use only the public HTTP API. Served by ``gateway/endpoints/playground.py``."""
