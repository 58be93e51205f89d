"""NLWeb's inbound side."""
