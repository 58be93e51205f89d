"""NLIP's inbound side."""
