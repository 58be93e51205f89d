"""Who a caller is: API keys, JWTs, DPoP, OAuth, certificates, passes."""
