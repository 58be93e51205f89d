"""The audit log, chained by hash, and its verification."""
