"""How much a caller may use: rates, daily quotas, reservations."""
