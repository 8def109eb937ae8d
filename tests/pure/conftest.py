"""The pure tier: the protocol core, file formats and live streams, without Django and without a socket."""

import socket
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that binds or connects a socket."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a pure test uses no socket: move it to tests/server")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
