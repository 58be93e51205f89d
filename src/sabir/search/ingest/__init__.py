"""Ingest: reads files, folders, feeds and sites into an index. ``ingest`` runs it; the readers are pure."""

from .fetch import Fetched, Fetcher
from .report import IngestProgress, IngestReport
from .run import ingest
from .walk import Reach

__all__ = ["Fetched", "Fetcher", "IngestProgress", "IngestReport", "Reach", "ingest"]
