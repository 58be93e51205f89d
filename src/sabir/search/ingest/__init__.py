"""Ingest: files, folders, feeds and sites into an index. ``ingest`` does it; the readers are pure."""

from .fetch import Fetched, Fetcher
from .run import Progress, Report, ingest

__all__ = ["Fetched", "Fetcher", "Progress", "Report", "ingest"]
