"""The inbound side of each protocol: bytes in, bytes out, the exchange between. One file a door."""
