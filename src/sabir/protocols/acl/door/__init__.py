"""The inbound side of ACL."""
