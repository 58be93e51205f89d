"""What the gateway may call: addresses, credentials, circuit breakers."""
