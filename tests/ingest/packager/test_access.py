"""What is known of who may watch while the database gives no answer."""

import asyncio
import time

import pytest
from django.db import OperationalError

from ingest.packager import access
from ingest.packager.access import Access, Found, Unsure
from ingest.packager.settings import PackagerSettings

pytestmark = pytest.mark.usefixtures("process")

NAME = ("live", "cam1", "")
ADDRESS = "192.0.2.7"
KNOWN_S = 0.02


class Database:
    """In the place of what is asked of it."""

    def __init__(self) -> None:
        self.is_away = False
        self.hangs_s = 0.0
        self.asked = 0

    def read(self, app: str, name: str, _token: str, *, node: str) -> Found:
        self.asked += 1
        time.sleep(self.hangs_s)
        if self.is_away:
            raise OperationalError(node)
        return Found("live", path=f"{app}/{name}")


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    made = Database()
    monkeypatch.setattr(access, "read", made.read)
    return made


async def test_known_access_is_answered_without_waiting_while_database_is_away(database: Database) -> None:
    known = Access("node", PackagerSettings(known_s=KNOWN_S))
    assert (await known.look(*NAME, ADDRESS)).state == "live"
    database.is_away, database.hangs_s = True, 0.2
    async with asyncio.timeout(5):
        while database.asked < 3:
            await known.look(*NAME, ADDRESS)
            await asyncio.sleep(0.001)
    asked, has_turned = database.asked, asyncio.Event()
    asyncio.get_running_loop().call_soon(has_turned.set)
    for _ in range(100):
        assert (await known.look(*NAME, ADDRESS)).state == "live"
    assert not has_turned.is_set(), "a wait would let the loop turn"
    assert database.asked <= asked + 1
    with pytest.raises(Unsure):
        await known.look("live", "cam2", "", ADDRESS)


async def test_access_not_asked_for_lately_is_unsure_while_database_is_away(database: Database) -> None:
    known = Access("node", PackagerSettings(known_s=KNOWN_S, fresh_s=0.2))
    assert (await known.look(*NAME, ADDRESS)).state == "live"
    database.is_away = True
    await asyncio.sleep(0.25)  # Its age is what is tested.
    with pytest.raises(Unsure):
        await known.look(*NAME, ADDRESS)
    with pytest.raises(Unsure):
        await known.look(*NAME, ADDRESS)
    database.is_away = False
    assert (await known.look(*NAME, ADDRESS)).state == "live"


async def test_known_access_expires_when_the_database_stays_away_too_long(database: Database) -> None:
    known = Access("node", PackagerSettings(known_s=KNOWN_S, doubted_s=0.3))
    await known.look(*NAME, ADDRESS)
    database.is_away = True

    async def go_on() -> None:
        async with asyncio.timeout(5):
            while True:
                await known.look(*NAME, ADDRESS)
                await asyncio.sleep(0.001)

    with pytest.raises(Unsure):
        await go_on()
