"""What another service is asked, for applications that say so: whether somebody may connect, publish or play.

It is asked after our own checks have passed, never instead of them. 2xx allows; 403 refuses, with its reason if its
body is JSON with one; anything else, like no answer, refuses for now.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from ingest import clean
from ingest.models import Application, EncoderLogin, Stream, StreamKey
from ingest.services.refusals import Action, Refused
from ingest.validators import instance_of

MAX_REASON = 200
MAX_ANSWER = 4096
"""Bytes of an answer that are read."""


@dataclass(frozen=True, slots=True)
class Question:
    """Whether an action may be done. No secret is in it: a key is told by its label and its first characters."""

    action: Action
    app: str
    instance: str = ""
    name: str = ""
    """The whole, which has the instance before it."""
    stream: int | None = None
    key: int | None = None
    shown_key: tuple[str, str] | None = None
    """Label and prefix."""
    login: str | None = None

    def body(self, *, address: str, encoder: str, node: str, session: str | None, at: datetime) -> bytes:
        label, prefix = self.shown_key or ("", "")
        said: dict[str, Any] = {
            "action": self.action,
            "app": self.app,
            "instance": self.instance,
            "name": self.name,
            "address": clean.text(address, 64),
            "encoder": clean.text(encoder, 255),
            "node": clean.text(node, 128),
            "session": session,
            "key": {"label": label, "prefix": prefix} if self.shown_key is not None else None,
            "login": self.login,
            "at": at.isoformat().replace("+00:00", "Z"),
        }
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()

    def refuse(self, why: str) -> NoReturn:
        """In the service's words, if it has any."""
        said = why.rstrip(". ") or "it gave no reason"
        raise Refused(self.action, "callback_refused", stream=self.stream, key=self.key, why=said)

    def fail(self) -> NoReturn:
        raise Refused(self.action, "callback_failed", stream=self.stream, key=self.key)


def question(
    action: Action,
    application: Application,
    *,
    instance: str = "",
    name: str = "",
    stream: Stream | None = None,
    key: StreamKey | None = None,
    login: EncoderLogin | None = None,
) -> Question | None:
    """What is to be asked; None: nothing, as the application doesn't want it. A name tells its instance itself."""
    if not application.asks(action):
        return None
    return Question(
        action,
        application.name,
        instance or instance_of(name),
        name,
        stream.pk if stream is not None else None,
        key.pk if key is not None else None,
        (key.label, key.prefix) if key is not None else None,
        login.user if login is not None else None,
    )


def judge(asked: Question, status: int, body: bytes) -> None:
    """Raises Refused, unless the answer allows it."""
    if 200 <= status < 300:
        return
    if status == 403:
        asked.refuse(reason_of(body))
    asked.fail()


def reason_of(body: bytes) -> str:
    """What a refusal's body says, cleaned and bounded; "" where it says nothing that can be read."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    reason = said.get("reason") if isinstance(said, dict) else None
    return clean.text(reason.strip(), MAX_REASON) if isinstance(reason, str) else ""
