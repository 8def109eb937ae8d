"""Receivers on loopback: of HTTP, which answers as it is told to, and of mail."""

import hashlib
import hmac
import re
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


@dataclass
class HttpReceiver:
    """`behaviours`: of the next requests; the last one goes on."""

    behaviours: list[Behaviour] = field(default_factory=lambda: [answer(200, b"ok")])
    got: list[Got] = field(default_factory=list)
    url: str = ""
    port: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Says nothing until the test is over."""
        self.released.wait(30)
        handler.close_connection = True

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """A byte now and then: no time between two bytes is long."""
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self.released.wait(0.1):
                handler.wfile.write(b"x")
        except OSError:
            return

    def flood(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not self.released.is_set():
                handler.wfile.write(b"y" * 65536)
        except OSError:
            return


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
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            receiver.got.append(Got(dict(self.headers), body, self.path))
            behaviour = receiver.behaviours[0]
            if len(receiver.behaviours) > 1:
                receiver.behaviours.pop(0)
            behaviour(self)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
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
    port: int = 0
    got: list[EmailMessage] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Addresses that it refuses for good."""


def use_mail_server(settings: Any, port: int) -> None:
    """Mail goes there: pytest-django keeps it in memory."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_URL = f"smtp://127.0.0.1:{port}"
    settings.EMAIL_HOST, settings.EMAIL_PORT, *_ = env.mail_server(settings.EMAIL_URL)


@contextmanager
def mail_receiver(port: int = 0) -> Iterator[MailReceiver]:
    """As much of SMTP as it takes."""
    receiver = MailReceiver()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 test")
            while line := self.rfile.readline():
                word = line.decode().strip()
                if word.upper().startswith("RCPT") and any(each in word for each in receiver.refused):
                    self.say("550 no such user")
                elif word.upper() == "DATA":
                    self.say("354 go on")
                    data = b""
                    while (part := self.rfile.readline()) not in (b".\r\n", b""):
                        data += part
                    message = message_from_bytes(data, policy=policy.default)
                    assert isinstance(message, EmailMessage)
                    receiver.got.append(message)
                    self.say("250 taken")
                elif word.upper() == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 ok")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    server = Server(("127.0.0.1", port), Handler)
    receiver.port = server.server_address[1]
    with serving(server):
        yield receiver
