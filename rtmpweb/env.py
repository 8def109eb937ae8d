"""Settings from the environment, typed.

Each helper returns a value of its type or raises `ImproperlyConfigured` with the variable, what was found and
what is expected, so that a wrong setting stops the start with one clear sentence.
"""

import math
import os
import re
import secrets
from collections.abc import Collection
from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}


def text(name: str, default: str = "") -> str:
    """The variable's text without surrounding blanks, or the default when it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """A yes or no: 1/0, true/false, yes/no, on/off."""
    found = text(name).lower()
    if not found:
        return default
    if found in TRUE:
        return True
    if found in FALSE:
        return False
    raise ImproperlyConfigured(f"{name} is {found!r}: expected one of 1, 0, true, false, yes, no, on, off.")


def integer(name: str, default: int, low: int, high: int) -> int:
    """A whole number from low to high."""
    found = text(name)
    if not found:
        return default
    try:
        value = int(found)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {found!r}: expected a whole number from {low} to {high}.") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {value}: expected a whole number from {low} to {high}.")
    return value


def number(name: str, default: float, low: float, high: float) -> float:
    """A number from low to high, which may have a fraction."""
    found = text(name)
    if not found:
        return default
    try:
        value = float(found)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {found!r}: expected a number from {low:g} to {high:g}.")
    return value


def choice(name: str, default: str, known: Collection[str]) -> str:
    """One of a few words, however it is capitalised."""
    found = text(name, default)
    for word in known:
        if word.lower() == found.lower():
            return word
    raise ImproperlyConfigured(f"{name} is {found!r}: expected one of {', '.join(known)}.")


def words(name: str, default: str = "") -> list[str]:
    """A list, separated by commas or blanks."""
    return text(name, default).replace(",", " ").split()


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


def file(name: str) -> Path | None:
    """An absolute path, or None when unset. A symbolic link stays one: what it points to may change."""
    found = text(name)
    return Path(found).expanduser().absolute() if found else None


def database_url(name: str) -> str:
    """A URL that dj_database_url understands; empty when unset. It holds a password: no error quotes it."""
    found = text(name)
    try:
        if found:
            dj_database_url.parse(found)
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} can't be read: expected postgres://user:password@host:port/name. In the password, / ? # @ : and % "
            "stand as %2F %3F %23 %40 %3A and %25; one of letters and digits (`openssl rand -hex 32`) needs none of it."
        ) from None
    return found


def rtmp_base(name: str) -> str:
    """rtmp://host[:port] or rtmps://..., without a path; empty when unset."""
    found = text(name).rstrip("/")
    if found and not re.fullmatch(r"rtmps?://[^/?#@\s]+", found):
        raise ImproperlyConfigured(f"{name} is {found!r}: expected rtmp://host:port or rtmps://host:port.")
    return found


def kept_secret(name: str, folder: Path) -> str:
    """The variable's value, else a random secret made once and kept in the folder, readable by its owner only."""
    found = text(name)
    if found:
        return found
    file = folder / name.lower()
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    made = secrets.token_urlsafe(48)
    partial = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(made)
    try:
        os.link(partial, file)  # Atomic, and fails when another process was first: then its secret is the one.
    except FileExistsError:
        pass
    finally:
        partial.unlink()
    return file.read_text().strip()
