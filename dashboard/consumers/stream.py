"""/ws/streams/<pk>/: one stream's page."""

import json
from typing import Any

from dashboard.consumers.database import reading
from dashboard.consumers.relay import Relay
from dashboard.snapshots import stream_picture, stream_told
from dashboard.streams import Now
from ingest.consumers.pages import stream_group, to_json
from ingest.livestore import get_livestore
from ingest.models import Stream

NO_STREAM = 4404

read_told = reading(stream_told)


@reading
def stream_exists(pk: int) -> bool:
    return Stream.objects.filter(pk=pk).exists()


class StreamConsumer(Relay):
    """One stream's figures, samples and latest events, then each sample and event as it comes."""

    last_at = 0.0
    told: frozenset[tuple[str, int]] = frozenset()

    @property
    def pk(self) -> int:
        return int(self.scope["url_route"]["kwargs"]["pk"])

    def group(self) -> str:
        return stream_group(self.pk)

    async def refusal(self) -> int | None:
        code = await super().refusal()
        if code is None and not await stream_exists(self.pk):
            return NO_STREAM
        return code

    async def snapshot(self) -> str:
        store = get_livestore()
        now = Now.of(await store.aread())
        stream = now.by_id.get(self.pk)
        told = await read_told(self.pk, stream and stream["session_id"])
        samples = await store.arecent(self.pk)
        self.last_at = samples[-1]["at"] if samples else 0.0
        self.told = frozenset((event["session_id"], event["sequence"]) for event in told["events"])
        return to_json(stream_picture(now.at, stream, samples, told))

    def is_told(self, message: dict[str, Any]) -> bool:
        message = json.loads(message["text"])
        if message["kind"] == "event":
            event = message["event"]
            return (event["session_id"], event["sequence"]) in self.told
        sample = message.get("sample")
        return sample is not None and bool(sample["at"] <= self.last_at)

    async def stream_sample(self, message: dict[str, Any]) -> None:
        await self.relay(message)

    async def stream_event(self, message: dict[str, Any]) -> None:
        await self.relay(message)

    async def stream_mutes(self, message: dict[str, Any]) -> None:
        await self.relay(message)
