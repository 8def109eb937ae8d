"""Secrets, and what is kept in their place: hashes under the installation's pepper, one kind for each purpose."""

import hashlib
import hmac
import secrets
import string

from django.conf import settings

ALPHABET = string.ascii_letters + string.digits
RANDOM_CHARACTERS = 32
"""Of 62 each: 190.5 random bits."""


def random_secret(prefix: str) -> str:
    """A new secret: the prefix, by which it is recognised, and 32 random characters of base 62."""
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARACTERS))


def keyed_hash(purpose: str, text: str) -> str:
    """HMAC-SHA-256 under the installation's pepper, in hexadecimal digits. Purposes can't be taken for one another."""
    message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
    return hmac.new(settings.KEY_PEPPER.encode(), message, hashlib.sha256).hexdigest()
