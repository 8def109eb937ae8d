"""Receivers of HTTP and of mail on loopback, which answer as a test says."""

import hashlib
import hmac
import re
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any

from rtmpweb import env


@dataclass
class Got:
    headers: dict[str, str]
    body: bytes
    path: str

    def is_signed_with(self, secret: str) -> bool:
        found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", self.headers["X-Rtmpweb-Signature"])
        assert found is not None
        expected = hmac.new(secret.encode(), f"{found[1]}.".encode() + self.body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, found[2]) and abs(time.time() - int(found[1])) < 60


Behaviour = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return behave


@dataclass
class HttpReceiver:
    """`behaviours` are for the next requests, each for one; the last stays."""

    behaviours: list[Behaviour] = field(default_factory=lambda: [answer(200, b"ok")])
    got: list[Got] = field(default_factory=list)
    url: str = ""
    port: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Send nothing until the test is over."""
        self.released.wait(30)
        handler.close_connection = True

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a byte now and then, so that no time between two bytes is long."""
        with suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self.released.wait(0.1):
                handler.wfile.write(b"x")

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.got.append(Got(dict(handler.headers), body, handler.path))
        (self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0])(handler)


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join(5)


@contextmanager
def http_receiver(tls: ssl.SSLContext | None = None) -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.port = server.server_address[1]
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{receiver.port}/hook"
    with serving(server):
        try:
            yield receiver
        finally:
            receiver.released.set()


@dataclass
class MailReceiver:
    """`refused` has addresses that it refuses for good."""

    port: int = 0
    got: list[EmailMessage] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def answer(self, command: str, handler: socketserver.StreamRequestHandler) -> str:
        """Return the answer to a command of SMTP (RFC 5321, 4.2)."""
        if command.startswith("RCPT") and any(each.upper() in command for each in self.refused):
            return "550 no such user"
        if command == "DATA":
            handler.wfile.write(b"354 go on\r\n")
            lines = takewhile(lambda line: line not in (b".\r\n", b""), iter(handler.rfile.readline, None))
            self.got.append(message_from_bytes(b"".join(lines), policy=policy.default))
        return "221 bye" if command == "QUIT" else "250 ok"


def use_mail_server(settings: Any, port: int) -> None:
    """Send mail to this port: pytest-django keeps it in memory."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_URL = f"smtp://127.0.0.1:{port}"
    settings.EMAIL_HOST, settings.EMAIL_PORT, *_ = env.mail_server(settings.EMAIL_URL)


class MailServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def mail_receiver(port: int = 0) -> Iterator[MailReceiver]:
    receiver = MailReceiver()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            said = ""
            self.wfile.write(b"220 test\r\n")
            while not said.startswith("221") and (line := self.rfile.readline()):
                said = receiver.answer(line.decode().strip().upper(), self)
                self.wfile.write(f"{said}\r\n".encode())

    server = MailServer(("127.0.0.1", port), Handler)
    receiver.port = server.server_address[1]
    with serving(server):
        yield receiver
