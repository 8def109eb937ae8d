"""Small answers: what is wrong with a request as JSON, and what a page of another origin may know (CORS)."""

import json
from collections.abc import Set
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

Header = tuple[str, str]

PREFLIGHT_S: Final = 600
"""How long a browser may go by a preflight's answer, in seconds."""
RETRY_S: Final = 5
"""After how many seconds to try again what failed for a reason that passes."""

METHODS: Final = ("GET", "HEAD", "OPTIONS")
_known: Final = ", ".join(METHODS)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: HTTPStatus
    detail: str = ""
    """For a person; empty: the response has no body."""
    headers: tuple[Header, ...] = ()

    @property
    def body(self) -> bytes:
        return json.dumps({"detail": self.detail}).encode() + b"\n" if self.detail else b""


NOTHING_HERE: Final = Answer(
    HTTPStatus.NOT_FOUND,
    "There is nothing here. Live streams are at /live/APPLICATION/STREAM.flv, recordings at /recordings/...",
)
UNREADABLE: Final = Answer(HTTPStatus.BAD_REQUEST, "The request can't be read.")
WRONG_METHOD: Final = Answer(HTTPStatus.METHOD_NOT_ALLOWED, f"Only {_known} are known.", (("Allow", _known),))
TOO_LONG: Final = Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request's head is too long.")
UNUSABLE_UPGRADE: Final = Answer(
    HTTPStatus.BAD_REQUEST,
    "This is no WebSocket of version 13 that could be opened.",
    (("Sec-WebSocket-Version", "13"),),
)
FOREIGN_PAGE: Final = Answer(
    HTTPStatus.FORBIDDEN, "Pages of this origin may not play from here: the server's RTMPWEB_MEDIA_ORIGINS lacks it."
)
WRONG_START: Final = Answer(HTTPStatus.BAD_REQUEST, "start is to be a time of the recording, in seconds.")
TOO_LATE: Final = Answer(HTTPStatus.REQUEST_TIMEOUT, "The request did not come in time.")
TOO_MANY: Final = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "There are as many connections from this address as there may be.",
    (("Retry-After", str(RETRY_S)),),
)
STOPPING: Final = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server can't answer this now: try another one, or this one in a moment.",
    (("Retry-After", str(RETRY_S)),),
)

STATUSES: Final = {
    "NetConnection.Connect.InvalidApp": HTTPStatus.NOT_FOUND,
    "NetConnection.Connect.Failed": HTTPStatus.SERVICE_UNAVAILABLE,
    "NetStream.Play.StreamNotFound": HTTPStatus.NOT_FOUND,
    "NetStream.Failed": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""For the code of the application's refusal; for all others 403."""


def refusal(code: str, description: str, *, passes: bool = False) -> Answer:
    """`passes`: the same request may be accepted in a moment."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if passes else STATUSES.get(code, HTTPStatus.FORBIDDEN)
    again = (("Retry-After", str(RETRY_S)),) if status == HTTPStatus.SERVICE_UNAVAILABLE else ()
    return Answer(status, description, again)


class Origins:
    """From which pages the media may be played."""

    def __init__(self, allowed: Set[str]) -> None:
        self._allowed = allowed

    def allows(self, origin: str) -> bool:
        """`origin`: of the request's field; "" without one, which is no page of another origin."""
        return not origin or "*" in self._allowed or origin.lower() in self._allowed

    def headers(self, origin: str) -> tuple[Header, ...]:
        """For a response to a page of an origin that is allowed."""
        vary = () if "*" in self._allowed else (("Vary", "Origin"),)
        if not origin or not self.allows(origin):
            return vary
        shown = "*" if "*" in self._allowed else origin
        exposed = ("Access-Control-Expose-Headers", "Accept-Ranges, Content-Length, Content-Range, Retry-After")
        return (("Access-Control-Allow-Origin", shown), exposed, *vary)


PREFLIGHT: Final = Answer(
    HTTPStatus.NO_CONTENT,
    headers=(
        ("Access-Control-Allow-Methods", _known),
        ("Access-Control-Allow-Headers", "Range"),
        ("Access-Control-Max-Age", str(PREFLIGHT_S)),
    ),
)
