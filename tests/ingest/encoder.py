"""An encoder that logs in, as FFmpeg and OBS do it: what it answers to what the server says, by its own arithmetic."""

import base64
import hashlib
import re
from dataclasses import dataclass

import pytest

from tests.rtmp_client import Refused, RtmpClient

CLIENT_CHALLENGE = "c35fe970"


def _base64_md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode()).digest()).decode()  # noqa: S324 - the protocol's.


def _hex_md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - the protocol's.


def fields_of(description: str) -> dict[str, str]:
    """What the second round tells."""
    query = description.partition("?")[2]
    return dict(item.split("=", 1) for item in query.split("&"))


def adobe(user: str, password: str, told: dict[str, str]) -> str:
    hashed = _base64_md5(user + told["salt"] + password)
    response = _base64_md5(hashed + told["opaque"] + CLIENT_CHALLENGE)
    return f"?authmod=adobe&user={user}&challenge={CLIENT_CHALLENGE}&response={response}&opaque={told['opaque']}"


def llnw(user: str, password: str, told: dict[str, str], app: str = "live") -> str:
    request = _hex_md5(f"publish:/{app}/_definst_")
    own = _hex_md5(f"{user}:live:{password}")
    response = _hex_md5(f"{own}:{told['nonce']}:00000001:{CLIENT_CHALLENGE}:auth:{request}")
    return f"?authmod=llnw&user={user}&nonce={told['nonce']}&cnonce={CLIENT_CHALLENGE}&nc=00000001&response={response}"


METHODS = {"adobe": adobe, "llnw": llnw}


async def asked(port: int, app: str) -> str:
    """What the server answers to a connect that it refuses; it closes then."""
    async with RtmpClient(port=port) as client:
        with pytest.raises(Refused) as refused:
            await client.connect(app)
        await client.wait_closed()
    return refused.value.description


@dataclass
class Encoder:
    """Its rounds; `queries` are those of the application's name."""

    port: int
    user: str
    password: str
    app: str = "live"

    async def first(self) -> str:
        """The method that the server asks for."""
        told = await asked(self.port, self.app)
        found = re.fullmatch(r"\[ AccessManager\.Reject \] : \[ code=403 need auth; authmod=(\w+) \] : ", told)
        assert found is not None
        return found[1]

    async def second(self, method: str = "adobe") -> dict[str, str]:
        told = await asked(self.port, f"{self.app}?authmod={method}&user={self.user}")
        assert told.startswith(f"[ AccessManager.Reject ] : [ authmod={method} ] : ?reason=needauth&user={self.user}&")
        return fields_of(told)

    async def query(self, method: str = "adobe") -> str:
        """What it connects with in the third round."""
        return METHODS[method](self.user, self.password, await self.second(method))
