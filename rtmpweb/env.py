"""Settings from the environment, typed.

Each helper returns a value of its type or raises `ImproperlyConfigured` with the variable, what was found and
what is expected, so that a wrong setting stops the start with one clear sentence.
"""

import math
import os
import re
import secrets
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import dj_database_url
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ingest.services import data_folder

FLAGS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
NEVER = "never"
T = TypeVar("T")


def read_or_exit() -> None:
    """Reads the settings. One that can't be used ends the process, in one sentence."""
    try:
        settings.DATA_DIR  # noqa: B018 - to ask for one reads them all.
    except ImproperlyConfigured as error:
        sys.exit(str(error))


def text(name: str, default: str = "") -> str:
    """The variable's text without surrounding blanks, or the default when it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def parsed(name: str, default: T, parse: Callable[[str], T], expected: str) -> T:
    """What `parse` makes of the variable's text, which it refuses by a ValueError or KeyError; the default when it is
    unset or empty.
    """
    found = text(name)
    if not found:
        return default
    try:
        return parse(found)
    except (ValueError, KeyError):
        raise ImproperlyConfigured(f"{name} is {found!r}: expected {expected}.") from None


def flag(name: str) -> bool:
    """A yes or no: 1/0, true/false, yes/no, on/off; no if it is unset."""
    return parsed(name, False, lambda found: FLAGS[found.lower()], f"one of {', '.join(FLAGS)}")


def integer(name: str, default: int, low: int, high: int) -> int:
    """A whole number from low to high."""
    expected = f"a whole number from {low} to {high}"
    value = parsed(name, default, int, expected)
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {value}: expected {expected}.")
    return value


def number(name: str, default: float, low: float, high: float, *, or_never: bool = False) -> float:
    """A number from low to high, which may have a fraction; or, with `or_never`, that word, which is infinity."""

    def parse(found: str) -> float:
        if or_never and found.lower() == NEVER:
            return math.inf
        value = float(found)
        if not low <= value <= high:
            raise ValueError(found)
        return value

    expected = f"a number from {low:g} to {high:g}"
    return parsed(name, default, parse, f"{expected}, or {NEVER}" if or_never else expected)


def memory(name: str, default: str, low_mib: int) -> str:
    """An amount of memory as Java takes it: a whole number, then m or g. At least `low_mib` MiB."""
    found = text(name, default).lower()
    match = re.fullmatch(r"([1-9]\d{0,6})([mg])", found)
    if match is None or int(match[1]) * {"m": 1, "g": 1024}[match[2]] < low_mib:
        raise ImproperlyConfigured(f"{name} is {found!r}: expected {low_mib}m or more, such as 1g or 1536m.")
    return found


MASTER: tuple[str, str] = r"local(\[(\d+|\*)\])?|spark://[^\s/,]+:\d+(,[^\s/,]+:\d+)*", "spark://host:7077 or local[2]"
REMOTE: tuple[str, str] = r"sc://[^\s/]+(/\S*)?", "sc://host:15002"


def spark(name: str, pattern: str, expected: str) -> str:
    """Where Spark is; empty when unset. It may hold a token: no error quotes it."""
    found = text(name)
    if found and not re.fullmatch(pattern, found):
        raise ImproperlyConfigured(f"{name} can't be used: expected {expected}.")
    return found


def choice(name: str, default: str, known: Collection[str]) -> str:
    """One of a few words, however it is capitalised."""
    words = {word.lower(): word for word in known}
    return parsed(name, default, lambda found: words[found.lower()], f"one of {', '.join(known)}")


def some(name: str, known: Collection[str]) -> list[str]:
    """Some of a few words, in their order, however they are capitalised; all of them when it is unset or empty."""
    found = [word.lower() for word in words(name)]
    if strange := next((word for word in found if word not in known), ""):
        raise ImproperlyConfigured(f"{name} has {strange!r}: expected some of {', '.join(known)}.")
    return [word for word in known if word in found or not found]


def words(name: str, default: str = "") -> list[str]:
    """A list, separated by commas or blanks."""
    return text(name, default).replace(",", " ").split()


def networks(name: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Addresses and networks, as 10.0.0.0/8, separated by commas or blanks."""
    found = words(name)
    try:
        return tuple(ip_network(word) for word in found)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}: expected networks, such as 10.0.0.0/8 or 127.0.0.1.") from None


def address(name: str, default: str) -> tuple[str, int] | None:
    """A listening address 'host:port' or '[v6]:port'; 'off' (or an empty default) means none."""
    found = text(name, default)
    if found.lower() in {"", "off"}:
        return None
    host, _, port = found.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ImproperlyConfigured(f"{name} is {found!r}: expected host:port, such as 127.0.0.1:8000.")
    return host.strip("[]"), int(port)


def path(name: str, default: Path) -> Path:
    """An absolute path; a relative one is taken from the working directory."""
    return Path(text(name, str(default))).expanduser().resolve()


def folder(name: str, default: Path) -> Path:
    """An absolute path of a folder that is there, and this user's alone."""
    value = path(name, default)
    try:
        data_folder.make_folder(value)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}: the folder {value} can't be made: {error.strerror}. Give this user the right to make it, or set "
            f"{name} to another folder."
        ) from None
    return value


def file(name: str) -> Path | None:
    """An absolute path, or None when unset. A symbolic link stays one: what it points to may change."""
    value = text(name)
    return Path(value).expanduser().absolute() if value else None


def database_url(name: str) -> str:
    """A URL that dj_database_url understands; empty when unset. It holds a password: no error quotes it."""
    value = text(name)
    try:
        if value:
            dj_database_url.parse(value)
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} can't be read: expected postgres://user:password@host:port/name. In the password, / ? # @ : and % "
            "stand as %2F %3F %23 %40 %3A and %25; one of letters and digits (`openssl rand -hex 32`) needs none of it."
        ) from None
    return value


def rtmp_base(name: str) -> str:
    """rtmp://host[:port] or rtmps://..., without a path; empty when unset."""
    value = text(name).rstrip("/")
    if value and not re.fullmatch(r"rtmps?://[^/?#@\s]+", value):
        raise ImproperlyConfigured(f"{name} is {value!r}: expected rtmp://host:port or rtmps://host:port.")
    return value


def http_base(name: str) -> str:
    """http://host[:port][/path] or https://..., without a slash at its end; empty when unset."""
    value = text(name).rstrip("/")
    if value and not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", value):
        raise ImproperlyConfigured(f"{name} is {value!r}: expected a URL such as https://media.example.org.")
    return value


MAIL_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


def mail_url(name: str) -> str:
    """smtp://, smtp+starttls:// or smtps://, then [user:password@]host[:port]; empty when unset. No error quotes it."""
    value = text(name)
    try:
        if value:
            mail_server(value)
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} can't be read: expected smtps://user:password@host:port, smtp+starttls://... or smtp://...; in "
            "the password, / ? # @ : and % stand as %2F %3F %23 %40 %3A and %25."
        ) from None
    return value


def mail_server(url: str) -> tuple[str, int, str, str, bool, bool]:
    """Of a mail_url: host, port, user, password, whether TLS begins by STARTTLS, whether at once."""
    if not url:
        return "", 0, "", "", False, False
    parts = urlsplit(url)
    if parts.scheme not in MAIL_PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    port = parts.port or MAIL_PORTS[parts.scheme]
    return parts.hostname, port, user, password, parts.scheme == "smtp+starttls", parts.scheme == "smtps"


MADE: set[Path] = set()
"""Files of secrets that this process had to make."""


def secret_file(name: str, folder: Path) -> Path:
    return folder / name.lower()


def kept_secret(name: str, folder: Path) -> str:
    """The variable's value, else a random secret made once and kept in the folder, readable by its owner only."""
    value = text(name)
    if value:
        return value
    file = secret_file(name, folder)
    try:
        secret = _read_secret(file)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name} is not set, and can't be kept in {file}: {error.strerror}. Let this user read and write there, or "
            f"set {name}, in all processes to the same."
        ) from None
    if not secret:
        raise ImproperlyConfigured(
            f"{name} is not set, and {file}, which kept it, is empty. Put back the one of a backup; if there is none, "
            "delete the file to have a new one made."
        )
    return secret


def _read_secret(file: Path) -> str:
    """What is in the file, which is made with a random secret in it unless it is there. Raises OSError."""
    with suppress(FileNotFoundError):
        secret = file.read_text().strip()
        data_folder.close(file)  # It may have been brought back from a backup.
        return secret
    data_folder.make_folder(file.parent)
    secret = secrets.token_urlsafe(48)
    partial = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, data_folder.FILE)
    with os.fdopen(descriptor, "w") as out:
        out.write(secret)
    try:
        os.link(partial, file)  # Atomic, and fails when another process was first: then its secret is the one.
        MADE.add(file)
    except FileExistsError:
        pass
    finally:
        partial.unlink()
    return file.read_text().strip()
