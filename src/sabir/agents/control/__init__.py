"""Control messages: how wishes are read from words and JSON, and what can be agreed on."""
