"""A2A's codecs."""
