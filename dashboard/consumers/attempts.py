"""/ws/attempts/: what is refused, as it is refused, so that an open page fetches its rows anew at once."""

import json
import time
from typing import Any

from dashboard.consumers.relay import Relay
from ingest.consumers.pages import ATTEMPTS


class AttemptsConsumer(Relay):
    """Each refusal in short, a few a second at most: for the rows, and how many each stands for, a page asks."""

    def group(self) -> str:
        return ATTEMPTS

    async def snapshot(self) -> str:
        return json.dumps({"kind": "snapshot", "at": round(time.time(), 3)})

    def is_told(self, message: dict[str, Any]) -> bool:
        """A snapshot tells of none."""
        return False

    async def attempt_refused(self, message: dict[str, Any]) -> None:
        await self.relay(message)
