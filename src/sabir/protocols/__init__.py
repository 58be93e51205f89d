"""One folder per protocol, each with the same three subfolders: wire, door, peer."""
