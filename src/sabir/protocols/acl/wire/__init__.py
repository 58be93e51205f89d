"""The wire of ACL: envelope, acts, ontologies, signatures. No I/O, no clock, no randomness."""
