"""The middle that every door calls: guard, conversation, agent, record. Read ``exchange.py`` first."""
