"""A searchable site as an Agent."""
