"""The certificate: it is replaced while streams go on, and what is wrong with one is said."""

import asyncio
import logging
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.tls import CertificateError, ServedCertificate, expiry, load
from tests.certificates import Pair, make_pair
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.server.rtmps.wire import raw, tls_port
from tests.ingest.server.waiting import within
from tests.rtmp_client import RtmpClient


async def serial(server: RtmpServer) -> int:
    """Of the certificate that a new client is shown."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    async with raw(tls_port(server), ssl=trusting) as (_, writer):
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown).serial_number


async def found_in(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_a_new_certificate_is_taken_while_streams_go_on(
    app: ScriptedApplication, tls_server: RtmpServer, pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await serial(tls_server) == pair.serial
    async with RtmpClient(port=tls_port(tls_server), tls=pair.client()) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)

        new = make_pair(tmp_path)
        assert await within(5, lambda: serial(tls_server), new.serial) == new.serial

        # A pair that doesn't match is logged once and not taken.
        key = new.key.read_bytes()
        make_pair(tmp_path)
        new.key.write_bytes(key)
        assert await within(5, lambda: found_in(caplog, "does not belong"), True)
        await asyncio.sleep(0.2)
        assert caplog.text.count("does not belong") == 1
        assert await serial(tls_server) == new.serial

        # Nor is one that is gone.
        new.chain.unlink()
        tls_server.reload_certificate()
        assert await within(5, lambda: found_in(caplog, "can't be read"), True)
        assert await serial(tls_server) == new.serial

        async with RtmpClient(port=tls_server.addresses[0][1]) as player:
            await player.connect("live")
            await player.play("cam1")
            await publisher.send_video(stream_id, 40, key_frame(1))
            await player.wait_count(events.VideoReceived, 2)
    assert not [record for record in caplog.records if record.exc_info]


def test_what_is_wrong_with_a_pair_is_said(tmp_path: Path) -> None:
    good = make_pair(tmp_path)
    assert abs(expiry(good.chain) - datetime.now(UTC) - timedelta(days=365)) < timedelta(minutes=1)
    other = tmp_path / "other"
    other.mkdir()
    locked = tmp_path / "locked"
    locked.mkdir()
    encrypted = make_pair(locked, password=b"secret")
    nothing = tmp_path / "nothing.pem"
    for chain, key, said in (
        (good.chain, make_pair(other).key, "RTMPWEB_TLS_KEY.* does not belong"),
        (encrypted.chain, encrypted.key, "is encrypted"),
        (nothing, good.key, "nothing.pem can't be read: No such file"),
        (good.chain, nothing, "nothing.pem can't be read: No such file"),
        (good.key, good.key, "There is no certificate in"),
        (good.chain, good.chain, "can't be used"),
    ):
        with pytest.raises(CertificateError, match=said):
            load(chain, key)


async def test_a_repair_that_does_not_show_is_noticed(
    tls_server: RtmpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = make_pair(tmp_path)
    key = new.key.read_bytes()
    new.key.write_bytes(key.swapcase())
    assert await within(5, lambda: found_in(caplog, "was not replaced"), True)
    broken = new.key.stat()
    new.key.write_bytes(key)
    os.utime(new.key, ns=(broken.st_atime_ns, broken.st_mtime_ns))  # As with a file's rights: its content's time stays.
    assert await within(5, lambda: serial(tls_server), new.serial) == new.serial
    assert caplog.text.count("was not replaced") == 1


async def test_a_look_that_fails_is_not_the_last(pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fault = RuntimeError("broken on purpose")
    answers: list[datetime | RuntimeError] = [fault, datetime.now(UTC), datetime.now(UTC)]  # Taken from the end.

    def now() -> datetime:
        answer = answers.pop() if answers else datetime.now(UTC)
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    served = ServedCertificate(pair.chain, pair.key, now=now)
    watch = asyncio.ensure_future(served.watch(0.02))
    try:
        assert await within(5, lambda: found_in(caplog, "could not be looked at"), True)
        first = served.current
        make_pair(tmp_path)

        async def is_replaced() -> bool:
            return served.current is not first

        assert await within(5, is_replaced, True)
    finally:
        watch.cancel()


@pytest.mark.parametrize(("days", "level", "said"), [(5.5, "WARNING", "expires in 5 days"), (-1, "ERROR", "expired")])
async def test_the_end_of_a_certificate_is_told(
    serve: Serve, tmp_path: Path, days: float, level: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    pair = make_pair(tmp_path, days=days)
    await serve(config={"rtmps": ("127.0.0.1", 0), "certificate": pair.chain, "certificate_key": pair.key})
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelname, said in record.getMessage()) == (level, True)
