"""Secrets that are used again, and so can't be kept as HMACs: encrypted under the installation's pepper (Fernet, with a
key for each purpose). What is sealed for one purpose is not unsealed for another."""

import base64
from typing import Any

from ingest.services.keys import keyed_hash

UNREADABLE = "Its secret can't be read, as the installation's pepper is another now: enter it again."


class Unreadable(ValueError):  # noqa: N818 - it reads as what it says.
    """Sealed under another pepper, or for another purpose."""

    def __init__(self) -> None:
        super().__init__(UNREADABLE)


def seal(purpose: str, secret: str) -> str:
    """As text, for a column."""
    sealed: bytes = _cipher(purpose).encrypt(secret.encode())
    return sealed.decode()


def unseal(purpose: str, sealed: str) -> str:
    """Raises Unreadable."""
    from cryptography.fernet import InvalidToken

    try:
        secret: bytes = _cipher(purpose).decrypt(sealed.encode())
    except InvalidToken:
        raise Unreadable from None
    return secret.decode()


def _cipher(purpose: str) -> Any:
    from cryptography.fernet import Fernet  # Loaded only where a secret is kept or used.

    return Fernet(base64.urlsafe_b64encode(bytes.fromhex(keyed_hash(purpose, "seal"))))
