"""The search index: words, vectors, ranking."""
