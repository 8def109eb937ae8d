"""Clients of a running server: an encoder, and a browser that logs in."""

import asyncio
import itertools
import re

import httpx

from tests.rtmp_client import RtmpClient
from tests.server_process import ServerProcess

AUDIO = (b"\xaf\x00\x12\x10", b"\xaf\x01\x21\x00\x49\x90\x02\x19\x00\x23\x80")
"""An AAC sequence header, and one frame."""


async def publish(server: ServerProcess, key: str) -> tuple[RtmpClient, int]:
    client = RtmpClient(port=server.rtmp_port)
    await client.open()
    await client.connect("live")
    stream_id = await client.publish(key)
    for payload in AUDIO:
        await client.send_audio(stream_id, 0, payload)
    return client, stream_id


async def keep_sending(client: RtmpClient, stream_id: int) -> None:
    for number in itertools.count(1):
        await client.send_audio(stream_id, 20 * number, AUDIO[1])
        await asyncio.sleep(0.02)


class Browser(httpx.Client):
    def __init__(self, server: ServerProcess) -> None:
        super().__init__(base_url=server.http, follow_redirects=True, timeout=20)

    def log_in(self, user: str, password: str) -> str:
        """Return the path of the page that follows the form."""
        page = self.get("/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
        assert token
        form = {"csrfmiddlewaretoken": token[1], "username": user, "password": password}
        return self.post(page.url, data=form).url.path
