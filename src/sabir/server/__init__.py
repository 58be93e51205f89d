"""How a gateway is served: uvicorn, TLS, worker processes, graceful shutdown."""

from .settings import Serving, Tls

__all__ = ["Serving", "Tls"]
