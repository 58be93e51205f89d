"""NLIP's outbound side: a remote NLIP agent as an Agent."""
