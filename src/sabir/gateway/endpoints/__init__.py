"""Endpoints of the gateway itself: health, metrics, well-known documents, the playground."""
