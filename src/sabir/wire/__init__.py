"""Pure codecs between a protocol's bytes and Messages or Events. No I/O, no clock, no randomness."""
