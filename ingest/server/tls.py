"""RTMPS: the certificate, checked when it is read and read anew when its files change; and the handshake.

From an accepted socket to a connection's TLS transport. A handshake that fails ends as connections end: once.

Each pair is loaded into a context of its own, which takes the former one's place only when all is well with it. So a
broken pair changes nothing, and connections that there are keep the context that they began with."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.server.asgi import Ending
from ingest.server.connection import Connection

logger = logging.getLogger(__name__)

WARN_BEFORE = timedelta(days=14)
"""A certificate that ends sooner is warned of, once a day."""

Signature = tuple[tuple[int, int, int] | None, ...]
"""(modified ns, bytes, inode) of each file; None for one that isn't there."""


class CertificateError(Exception):
    """The pair can't be used. The message is for the operator: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    context: ssl.SSLContext
    expires: datetime


def expiry(chain: Path) -> datetime:
    """When the first certificate of the PEM file ends, in UTC. Raises CertificateError."""
    from cryptography import x509  # 7 MB, for RTMPS alone.

    try:
        return x509.load_pem_x509_certificate(chain.read_bytes()).not_valid_after_utc
    except OSError as error:
        raise _unreadable(chain, error) from None
    except ValueError:
        raise CertificateError(
            f"There is no certificate in {chain} (RTMPWEB_TLS_CERT). Give a PEM file: the server's certificate first, "
            "then its chain."
        ) from None


def load(chain: Path, key: Path) -> Certificate:
    """The pair of files, checked: they can be read and belong together. Raises CertificateError."""
    expires = expiry(chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(chain, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError(
                f"The key in {key} (RTMPWEB_TLS_KEY) does not belong to the certificate in {chain} (RTMPWEB_TLS_CERT). "
                "Give the two that were issued together."
            ) from None
        raise CertificateError(
            f"{chain} (RTMPWEB_TLS_CERT) and {key} (RTMPWEB_TLS_KEY) can't be used: "
            f"{error.reason or 'there is no private key in PEM form'}."
        ) from None
    except OSError as error:
        raise _unreadable(key, error) from None
    except _EncryptedError:
        raise CertificateError(
            f"The key in {key} (RTMPWEB_TLS_KEY) is encrypted. Give it without a passphrase, readable by the server's "
            "user only."
        ) from None
    return Certificate(context, expires)


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    """Asked for where the key is encrypted. OpenSSL itself would ask at the terminal, and wait."""
    raise _EncryptedError


def _unreadable(file: Path, error: OSError) -> CertificateError:
    return CertificateError(f"{file} can't be read: {error.strerror or error}. Give a file that the server may read.")


class ServedCertificate:
    """The pair that is served now, and the watch over its files."""

    def __init__(self, chain: Path, key: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Raises CertificateError."""
        self._chain = chain
        self._key = key
        self._now = now
        self._asked = asyncio.Event()
        self._loaded = self._seen = self._signature()
        self._complaint = ""
        """What was wrong with the pair that was read last."""
        self.current = load(chain, key)
        self._warned = now() - timedelta(days=1)
        self._log_served()

    def reload(self) -> None:
        """Have the files read at once, changed or not."""
        self._asked.set()

    async def watch(self, every_s: float) -> None:
        """Poll the files until cancelled; on another thread, as a file system may be slow."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), every_s)
            is_requested = self._asked.is_set()
            self._asked.clear()
            try:
                await asyncio.to_thread(self._check, is_requested)
            except Exception:  # Our own fault: one poll that failed must not be the last.
                logger.exception("The certificate of RTMPS could not be looked at. The former one is still served.")

    def _check(self, is_requested: bool) -> None:
        """Read the files if they were changed and are at rest: the two are seldom replaced in the same moment."""
        signature = self._signature()
        if is_requested or (signature != self._loaded and signature == self._seen):
            self._read(signature, is_requested)
        if self._now() - self._warned >= timedelta(days=1):
            self._warn()
        self._seen = signature

    def _read(self, signature: Signature, is_requested: bool) -> None:
        """Take the pair. One that can't be used is tried at each poll, as its repair may show nowhere else: a file's
        rights, the process's files. It is told of once, and each time that an operator asks.
        """
        try:
            self.current = load(self._chain, self._key)
        except CertificateError as error:
            if is_requested or str(error) != self._complaint:
                logger.error("The certificate of RTMPS was not replaced, the former one is still served. %s", error)
            self._complaint = str(error)
        else:
            self._loaded, self._complaint = signature, ""
            self._log_served()

    def _log_served(self) -> None:
        logger.info("RTMPS serves %s, valid until %s", self._chain, self.current.expires.isoformat(" ", "minutes"))
        self._warn()

    def _warn(self) -> None:
        now = self._now()
        left = self.current.expires - now
        self._warned = now
        if left <= timedelta(0):
            logger.error(
                "The certificate %s of RTMPS has expired: clients refuse it. Renew it; a new one is taken by itself.",
                self._chain,
            )
        elif left < WARN_BEFORE:
            logger.warning(
                "The certificate %s of RTMPS expires in %d days. Renew it; a new one is taken by itself.",
                self._chain,
                left.days,
            )

    def _signature(self) -> Signature:
        return tuple(_signature(file) for file in (self._chain, self._key))


def _signature(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


NOT_TLS = "The client spoke something else than TLS: RTMP without it goes to the other port."
NOT_TRUSTED = "The client doesn't trust the certificate."

HINTS = {
    "WRONG_VERSION_NUMBER": NOT_TLS,
    "HTTP_REQUEST": NOT_TLS,
    "HTTPS_PROXY_REQUEST": NOT_TLS,
    "UNSUPPORTED_PROTOCOL": "The client's TLS is older than 1.2.",
    "TLSV1_ALERT_UNKNOWN_CA": NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": NOT_TRUSTED,
}
"""By OpenSSL's reason: what it means for an operator."""


class Handshaking(asyncio.Transport):
    """Stands in for a connection's transport until there is one: whoever closes it ends the handshake."""

    def __init__(self, connected: socket.socket, peer: tuple[str, int], task: "asyncio.Future[Any]") -> None:
        super().__init__({"peername": peer, "sockname": connected.getsockname(), "socket": connected})
        self._task = task
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._task.cancel()

    def abort(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False


def shake_hands(
    connection: Connection, connected: socket.socket, peer: tuple[str, int], context: ssl.SSLContext
) -> None:
    """Count the connection in and begin; then it gets its transport, or ends."""
    deadlines = connection.server.config.deadlines
    task = asyncio.ensure_future(
        connection.loop.connect_accepted_socket(
            lambda: connection,
            connected,
            ssl=context,
            # The sweep's own deadline comes first: it counts from the accept to the end of RTMP's handshake.
            ssl_handshake_timeout=deadlines.handshake_s + deadlines.write_s,
            # Encoders that never read don't answer the close of TLS. They see TCP's, which follows.
            ssl_shutdown_timeout=deadlines.linger_s,
        )
    )

    def done(_task: object) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        if isinstance(error, OSError):
            connection.ending = connection.ending or _ending(error)
        connection.connection_lost(None)
        connected.close()

    task.add_done_callback(done)
    connection.accepted(Handshaking(connected, peer, task))


def _ending(error: OSError) -> Ending:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "unknown").replace("_", " ").lower()
        return Ending("protocol_error", f"No TLS handshake ({reason}). {HINTS.get(error.reason, '')}".rstrip())
    return Ending("tcp_reset", "Closed during the TLS handshake.")
