"""A folder of recordings, and rows with files in it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from ingest.models import Recording, Stream
from tests.pure.flv.files import media, written

Make = Callable[..., Recording]


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.RECORDINGS_DIR = tmp_path / "recordings"
    (settings.RECORDINGS_DIR / "live").mkdir(parents=True)
    return Path(settings.RECORDINGS_DIR)


@pytest.fixture
def make(folder: Path, stream: Stream) -> Make:
    """`make(days=3, size=1000)` makes a complete recording of 3 days ago, with a file."""

    def make(*, days: float = 0, size: int = 100, **fields: Any) -> Recording:
        at = timezone.now() - timedelta(days=days)
        name = fields.pop("name", f"cam1-{Recording.objects.count()}")
        file = f"live/{name}-{Recording.objects.count()}.flv"
        (folder / file).write_bytes(b"x" * min(size, 1000))
        given = {"state": "complete", "ended_at": at, "duration_ms": 1000, "size_bytes": size, "started_at": at}
        return Recording.objects.create(
            application=stream.application, stream=stream, name=name, file=file, **(given | fields)
        )

    return make


def flv(seconds: int, *, finished: bool = True) -> bytes:
    return written(media(seconds), finished=finished).getvalue()


def files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*.flv")]
