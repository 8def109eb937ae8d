"""Addresses of sessions' pages for those who are elsewhere: in messages."""

from django.urls import reverse

from ingest.links import absolute


def session_url(session: object) -> str:
    """The page of a session, by its id."""
    return absolute(reverse("dashboard:session", args=[session]))
