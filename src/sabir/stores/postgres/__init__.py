"""PostgreSQL, shared by several nodes."""
