"""Authentication: API keys, JWTs, DPoP, OAuth, certificates, passes."""
