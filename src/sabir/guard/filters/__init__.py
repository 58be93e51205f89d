"""Content filters: what may pass in and out."""
