"""The API under /api/v1/: read what the dashboard shows, kick. Its OpenAPI description is at /api/v1/docs."""

from dashboard.api.root import api

__all__ = ["api"]
