"""Control messages: how requests are read from text and JSON, and what can be agreed on."""
