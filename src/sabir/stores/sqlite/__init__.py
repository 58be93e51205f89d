"""SQLite: one file, one writer with group commit."""
