"""Other gateways: their agents, listed and called."""
