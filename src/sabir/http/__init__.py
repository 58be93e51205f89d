"""The HTTP edge, once for all doors: requests, responses, admission, fallbacks; and what HTTP clients share."""
