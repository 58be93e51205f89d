"""The agents that come with Sabir. Everything that answers is an Agent."""
