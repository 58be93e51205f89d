"""The HTTP edge shared by all doors: requests, responses, admission, fallbacks, and the HTTP client of peers."""
