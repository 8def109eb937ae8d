"""Made-up H.264 and AAC messages: the FLV headers are real, the coded data are numbered filler."""

import asyncio

from tests.rtmp_client import RtmpClient

AVC_HEADER = bytes.fromhex("17000000000142c01effe100096742c01e8c8d40501ee001000468ce3c80")
"""AVCDecoderConfigurationRecord, baseline."""
AAC_HEADER = bytes.fromhex("af001190")
"""AudioSpecificConfig: AAC-LC, 48 kHz, stereo."""


def key_frame(number: int, size: int = 400) -> bytes:
    return bytes.fromhex("1701000000") + number.to_bytes(4, "big") * (size // 4)


def inter_frame(number: int, size: int = 200) -> bytes:
    return bytes.fromhex("2701000000") + number.to_bytes(4, "big") * (size // 4)


def sound(number: int, size: int = 100) -> bytes:
    return bytes.fromhex("af01") + number.to_bytes(4, "big") * (size // 4)


async def keep_sending(publisher: RtmpClient, stream_id: int) -> None:
    """Send a picture ten times a second until the connection closes."""
    timestamp = 0
    while not publisher.closed:
        timestamp += 100
        await publisher.send_video(stream_id, timestamp, key_frame(0))
        await asyncio.sleep(0.1)
