"""The last minute of live streams, with which the wall's sparklines begin."""

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from ingest.live_store import CompactSample, get_livestore
from ingest.models import Stream
from tests.dashboard.conftest import figures, make_stream, snapshot

NOW = 1_700_000_000.0


def sample(at: float, video_kbps: float) -> CompactSample:
    return CompactSample(
        at=at,
        video_kbps=video_kbps,
        audio_kbps=128.4,
        fps=25.0,
        keyframe_interval=2.0,
        drift_dev=0.0,
        rtt_ms=None,
        players=1,
        health="good",
    )


def put(stream: Stream, samples: list[CompactSample]) -> None:
    for one in samples:
        async_to_sync(get_livestore().append_samples)({stream.pk: one})


@pytest.mark.both_forms
def test_live_streams_come_with_their_last_minute_and_no_more(viewer: Client, stream: Stream) -> None:
    put(stream, [sample(NOW - age, 1000.0 + age) for age in (90, 65, 64, 1, 0)])
    async_to_sync(get_livestore().put_node)(figures(), [snapshot(stream)])
    response = viewer.get("/live/recent/")
    assert response["Cache-Control"] == "no-store"
    assert response.json() == {
        "items": {
            str(stream.pk): {
                "at": [NOW - 64, NOW - 1, NOW],
                "video_kbps": [1064, 1001, 1000],
                "audio_kbps": [128, 128, 128],
                "health": ["good", "good", "good"],
            }
        }
    }


def test_a_stream_that_waits_or_has_no_sample_yet_is_no_fault(viewer: Client, stream: Stream) -> None:
    other = make_stream("cam-2")
    put(other, [sample(NOW, 1000.0)])
    async_to_sync(get_livestore().put_node)(figures(), [snapshot(stream), snapshot(other, state="waiting")])
    items = viewer.get("/live/recent/").json()["items"]
    assert items == {str(stream.pk): {"at": [], "video_kbps": [], "audio_kbps": [], "health": []}}


def test_it_is_for_those_who_may_view(client: Client, db: None) -> None:
    assert client.get("/live/recent/").status_code == 302
