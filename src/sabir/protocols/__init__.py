"""One folder a protocol, with the same three rooms in each: wire, door, peer."""
