"""Challenges of encoders' log-ins, and what answers them: the rounds of `authmod=adobe` and `authmod=llnw`.

Three connections, each closed by the server but the last one:

    app                                    answer
    live                                   [ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] :
    live?authmod=adobe&user=U              [ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=needauth&user=U&...
    live?authmod=adobe&user=U&response=R   accepted, or ?reason=authfailed

No state is kept between them, so that any node answers any round: a challenge is a token that is signed for a user, an
application and an address, for a short time. An answer that was overheard is good for as long, from the same address,
on nodes that haven't seen it.
"""

import base64
import hashlib
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from ingest.addresses import unit_or_itself
from ingest.contracts import LoginAnswer
from ingest.pepper import keyed_hash

LIFE = timedelta(seconds=30)
"""Of a challenge: encoders answer at once."""

SKEW = timedelta(seconds=10)
"""By which another node's clock may be ahead."""

MOST_SPENT = 10_000
"""Challenges that were answered well, and are remembered for their life."""

NONCE_BYTES = 8
SIGNATURE_DIGITS = 32

TOKEN = re.compile(r"([0-9a-f]{8})\.([0-9a-f]{16})\.([0-9a-f]{32})")

REALM = "live"
"""Of llnw, whatever the application."""


@dataclass(frozen=True, slots=True)
class Verifiers:
    """What is kept of a password: enough to check answers, and to make them."""

    salt: str
    adobe: str
    llnw: str


def verifiers(user: str, password: str, salt: str) -> Verifiers:
    return Verifiers(salt, _base64_md5(user + salt + password), _hex_md5(f"{user}:{REALM}:{password}"))


def new_salt() -> str:
    return secrets.token_hex(NONCE_BYTES)


def made_up(app: str, user: str) -> Verifiers:
    """For a user that there is not: always the same, as those of one that there is, and no answer fits."""
    salt = keyed_hash("encoder-salt", f"{app}\0{user}")[: 2 * NONCE_BYTES]
    return verifiers(user, secrets.token_hex(), salt)


# --- Descriptions, as clients look for them ---


def invitation(authmod: str = "adobe") -> str:
    """The first round: `authmod=adobe` is what all know."""
    return f"[ AccessManager.Reject ] : [ code=403 need auth; authmod={authmod} ] : "


def failed(authmod: str) -> str:
    return f"[ AccessManager.Reject ] : [ authmod={authmod} ] : ?reason=authfailed"


def needed(authmod: str, *, app: str, user: str, salt: str, address: str, now: datetime) -> str:
    """The second round. `user` is quoted: one that can be a user's name."""
    token = issue(app=app, user=user, address=address, now=now)
    fields = AUTHMODS[authmod].fields.format(salt=salt, token=token)
    return f"[ AccessManager.Reject ] : [ authmod={authmod} ] : ?reason=needauth&user={user}{fields}"


# --- Tokens ---


def issue(*, app: str, user: str, address: str, now: datetime) -> str:
    issued, nonce = f"{int(now.timestamp()):08x}", secrets.token_hex(NONCE_BYTES)
    return f"{issued}.{nonce}.{_signature(issued, nonce, app, user, address)}"


Verdict = Literal["valid", "expired", "foreign"]


def judge(token: str, *, app: str, user: str, address: str, now: datetime) -> Verdict:
    """ "foreign": it was made up, or given to another user or address, or for another application."""
    found = TOKEN.fullmatch(token)
    if found is None:
        return "foreign"
    issued, nonce, signature = found.groups()
    if not hmac.compare_digest(signature, _signature(issued, nonce, app, user, address)):
        return "foreign"
    age = now.timestamp() - int(issued, 16)
    return "valid" if -SKEW.total_seconds() <= age <= LIFE.total_seconds() else "expired"


def _signature(issued: str, nonce: str, app: str, user: str, address: str) -> str:
    signed = "\0".join((issued, nonce, app, user, unit_or_itself(address)))
    return keyed_hash("encoder-challenge", signed)[:SIGNATURE_DIGITS]


class Spent:
    """The challenges that this process has taken an answer to. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: OrderedDict[str, datetime] = OrderedDict()

    def spend(self, token: str, now: datetime) -> bool:
        """False: it is spent already."""
        with self._lock:
            while self._until and (len(self._until) >= MOST_SPENT or next(iter(self._until.values())) < now):
                self._until.popitem(last=False)
            if token in self._until:
                return False
            self._until[token] = now + LIFE + SKEW
            return True


SPENT = Spent()


# --- Answers ---


def is_right(said: LoginAnswer, known: Verifiers) -> bool:
    """Whether the answer is what this password makes of its challenge; in a time that tells nothing."""
    right = AUTHMODS[said["authmod"]].answer(said, known)
    return hmac.compare_digest(said["response"].encode(errors="replace"), right.encode())


def _adobe(said: LoginAnswer, known: Verifiers) -> str:
    return _base64_md5(known.adobe + said["opaque"] + said["challenge"])


def _llnw(said: LoginAnswer, known: Verifiers) -> str:
    app = said["app"] if "/" in said["app"] else f"{said['app']}/_definst_"
    request = _hex_md5(f"publish:/{app}")
    return _hex_md5(":".join((known.llnw, said["nonce"], said["nc"], said["cnonce"], "auth", request)))


@dataclass(frozen=True, slots=True)
class Authmod:
    fields: str
    """What follows the user in the second round."""
    echo: Literal["opaque", "nonce"]
    """In which field the client sends the token back."""
    answer: Callable[[LoginAnswer, Verifiers], str]


AUTHMODS = {
    "adobe": Authmod("&salt={salt}&challenge={token}&opaque={token}", "opaque", _adobe),
    "llnw": Authmod("&nonce={token}", "nonce", _llnw),
}


def _md5(text: str) -> "hashlib._Hash":
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)


def _base64_md5(text: str) -> str:
    return base64.b64encode(_md5(text).digest()).decode()


def _hex_md5(text: str) -> str:
    return _md5(text).hexdigest()
