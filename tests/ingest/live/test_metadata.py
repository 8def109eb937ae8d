"""onMetaData made safe to keep."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.clean import encoder_name
from ingest.live.description import claimed, sanitise
from ingest.rtmp.amf import amf0

TEXTS = st.text(max_size=5) | st.sampled_from(["long" * 100, ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXTS | st.binary(max_size=5) | st.just(amf0.UNDEFINED),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for name, item in value.items() for text in (name, *texts_of(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_what_an_encoder_sends_stays_as_it_is() -> None:
    sent = {"width": 1920.0, "framerate": 29.97, "encoder": "obs-output module", "stereo": True, "2.1": False}
    found = sanitise(sent)
    assert found == sent
    assert isinstance(found["width"], int)


OBS = "obs-output module (libobs version 30.2.3)"


@pytest.mark.parametrize(
    ("flash_ver", "said", "name"),
    [
        ("FMLE/3.0 (compatible; FMSc/1.0)", OBS, OBS),
        ("FMLE/3.0", f" {OBS} ", OBS),
        ("LNX 9,0,124,2", "Lavf60.16.100", "Lavf60.16.100"),
        ("", OBS, OBS),
        ("FMLE/3.0 (compatible; Lavf61.7.100)", "Lavf61.7.100", "FMLE/3.0 (compatible; Lavf61.7.100)"),
        ("Wirecast/FM 14.1 FMLE/3.0 (compatible; FMSc/1.0)", "x", "Wirecast/FM 14.1 FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", None, "FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", " ", "FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", 5.0, "FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", "x" * 300, "x" * 255),
    ],
)
def test_what_an_encoder_is_called(flash_ver: str, said: Any, name: str) -> None:
    assert encoder_name(flash_ver, {"encoder": said, "width": 1920}) == name
    assert encoder_name(name, {}) == name


def test_what_json_can_not_hold() -> None:
    found = sanitise(
        {"a": math.nan, "b": math.inf, "c": amf0.UNDEFINED, "d": amf0.Date(0.0), "e": amf0.Date(1e300), "f": 1e300}
    )
    assert found == {"a": None, "b": None, "c": None, "d": "1970-01-01T00:00:00+00:00", "e": None, "f": 1e300}


def test_what_is_no_object_is_nothing() -> None:
    for value in (None, 5.0, "text", [1.0], amf0.UNDEFINED):
        assert sanitise(value) == {}


def test_many_values_are_cut_off() -> None:
    assert len(sanitise({f"key{number}": float(number) for number in range(10_000)})) == 256
    nested = sanitise({"list": [[0.0] * 200 for _ in range(200)]})
    assert len(json.dumps(nested)) < 3000


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_the_result_is_bounded_json(value: dict[str, Any]) -> None:
    found = sanitise(value)
    json.dumps(found, allow_nan=False)
    assert depth_of(found) <= 4
    assert all(len(text) <= 256 for text in texts_of(found))


def test_claims_are_believed_within_reason() -> None:
    metadata = {"a": 30, "b": 0, "c": -1, "d": 1e9, "e": "30", "f": True, "g": None, "h": 29.97}
    believed = {name: claimed(metadata, name, most=1000) for name in (*metadata, "missing")}
    assert {name for name, value in believed.items() if value is not None} == {"a", "h"}
