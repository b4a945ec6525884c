"""Declares the settings: each reader below reads one variable, checks it, and enters it in `DECLARED`.

`portal/settings.py` calls the readers; `manage.py settings` and docs/settings.md show what is in `DECLARED`, so no
second list of settings exists. A value comes from the environment, else from the file that `make up` generates
(`.portal/services.json`), else it is the default. Nothing here imports Django's settings.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

from portal.processes import without_other_logins

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".portal"
MASK = "********"


class Origin(StrEnum):
    """Where the value of a setting came from."""

    ENVIRONMENT = "environment"
    GENERATED = "generated file"
    DEFAULT = "default"


Value = str | bool | int | float | list[str]


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting. `value` and `default` may be shown: passwords in them are masked.

    `default` is None where the setting has none; `bounds` says what is allowed, as a person writes it.
    """

    section: str
    name: str
    kind: str
    value: Value
    default: Value | None
    origin: Origin
    bounds: str
    meaning: str


DECLARED: dict[str, Setting] = {}
"""Every setting by its name, in the order of `portal/settings.py`. The readers fill it."""
_section = [""]


def section(title: str) -> None:
    """Begins a section: the settings that are declared from here on belong to it."""
    _section[0] = title


def _generated() -> dict[str, str]:
    try:
        values: dict[str, str] = json.loads((STATE / "services.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    return without_other_logins(os.environ.get("PORTAL_DB_ROLE") or "app", values)


GENERATED = _generated()


def _read(name: str) -> tuple[str | None, Origin]:
    """The text that is set, with its origin. An empty text counts as unset: the answer is then (None, DEFAULT)."""
    if value := os.environ.get(name):
        return value, Origin.ENVIRONMENT
    if value := GENERATED.get(name):
        return value, Origin.GENERATED
    return None, Origin.DEFAULT


def _declare(
    name: str, kind: str, value: Value, default: Value | None, origin: Origin, meaning: str, bounds: str = ""
) -> None:
    DECLARED[name] = Setting(_section[0], name, kind, value, default, origin, bounds, meaning)


def _required(name: str) -> str:
    """The text that is set. Raises ImproperlyConfigured, naming the setting, where none is."""
    value, _ = _read(name)
    if value is None:
        raise ImproperlyConfigured(
            f"{name} is not set, and no embedded services were found in {STATE}. Run `make up`, or set {name}."
        )
    return value


def text(name: str, default: str, *, meaning: str) -> str:
    """Declares a text."""
    found, origin = _read(name)
    value = default if found is None else found
    _declare(name, "text", value, default, origin, meaning)
    return value


def required_secret(name: str, *, meaning: str) -> str:
    """Declares a secret that must be set, in the environment or by `make up`. It is always shown masked."""
    value = _required(name)
    _declare(name, "secret", MASK, None, _read(name)[1], meaning)
    return value


def secret(name: str, *, meaning: str) -> str:
    """Declares a key, or "": it comes from the environment alone, never from a file of this folder, and never
    appears in an error. It is always shown masked."""
    value = os.environ.get(name, "").strip()
    if not all("!" <= character <= "~" for character in value):
        raise ImproperlyConfigured(f"{name} holds characters that no HTTP header can carry.")
    _declare(
        name, "secret", MASK if value else "", "", Origin.ENVIRONMENT if value else Origin.DEFAULT, meaning
    )
    return value


def http_url(name: str, *, needed_by: str, meaning: str) -> str:
    """Declares an http or https address without user and password, or "" where nothing needs one."""
    value, origin = _read(name)
    value = (value or "").strip()
    _declare(name, "URL", _masked(value), "", origin, meaning)
    if not value and not needed_by:
        return ""
    if not value:
        raise ImproperlyConfigured(f"{needed_by} needs {name}, the address of the server.")
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ImproperlyConfigured(
            f"{name} must be an http or https address, such as http://127.0.0.1:8080/v1."
        )
    if "@" in parts.netloc:
        raise ImproperlyConfigured(
            f"{name} must hold no user or password; a key goes into EMBEDDING_API_KEY."
        )
    return value


def flag(name: str, *, default: bool, meaning: str, replaces: str = "") -> bool:
    """Declares a switch: `1`/`true`/`yes`/`on` or `0`/`false`/`no`/`off`; anything else is refused, and so is the setting that it
    `replaces`, which would otherwise no longer protect anything without a word."""
    if replaces and os.environ.get(replaces):
        raise ImproperlyConfigured(f"{replaces} is no longer read. Set {name} instead (docs/settings.md).")
    found, origin = _read(name)
    value = default
    if found is not None:
        lowered = found.strip().lower()
        if lowered not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
            raise ImproperlyConfigured(f"{name} must be true or false, not {found!r}.")
        value = lowered in {"1", "true", "yes", "on"}
    _declare(name, "true or false", value, default, origin, meaning)
    return value


def number(name: str, default: float, *, low: float, high: float, meaning: str) -> float:
    """Declares a number within [low, high]; anything else is refused with the range."""
    value, origin = _number(name, default, low, high)
    _declare(name, "number", value, default, origin, meaning, f"{plain(low)} to {plain(high)}")
    return value


def integer(name: str, default: int, *, low: int, high: int, meaning: str, default_rule: str = "") -> int:
    """Declares a whole number within [low, high]. `default_rule` says how a default that differs by machine is made."""
    value, origin = _number(name, default, low, high)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value:g}.")
    _declare(
        name,
        "whole number",
        int(value),
        default_rule or default,
        origin,
        meaning,
        f"{plain(low)} to {plain(high)}",
    )
    return int(value)


def _number(name: str, default: float, low: float, high: float) -> tuple[float, Origin]:
    found, origin = _read(name)
    if found is None:
        return default, origin
    try:
        value = float(found)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {found!r}.") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} must lie between {low:g} and {high:g}, not {found}.")
    return value, origin


def plain(number: float) -> str:
    """A number as people read it and the readers accept it: `0.35`, `8000`, `20_000`."""
    return f"{number:_}" if number >= 10_000 else str(number)


def choice(name: str, default: str, *, allowed: tuple[str, ...], meaning: str) -> str:
    """Declares a choice: one of `allowed`."""
    found, origin = _read(name)
    value = found or default
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    _declare(name, "choice", value, default, origin, meaning, ", ".join(allowed))
    return value


def words(name: str, default: str, *, meaning: str) -> list[str]:
    """Declares a comma-separated list; empty entries are dropped."""
    found, origin = _read(name)
    value = _words(default if found is None else found)
    _declare(name, "list", value, _words(default), origin, meaning)
    return value


def _words(listed: str) -> list[str]:
    return [word.strip() for word in listed.split(",") if word.strip()]


def database(name: str, *, needed: bool, meaning: str) -> dict[str, object]:
    """Declares the URL of a database login and returns it as `database_login` does; {} where it is not `needed`."""
    found, origin = _read(name)
    _declare(name, "URL", _masked(found or ""), None, origin, meaning)
    return database_login(name) if needed else {}


def database_login(name: str) -> dict[str, object]:
    """Django's NAME, USER, PASSWORD, HOST and PORT from a URL such as `postgresql://user:pw@host:5432/portal`.

    A Unix socket folder is given as `postgresql://user:pw@/portal?host=%2Fpath%2Fto%2Ffolder`.
    """
    url = urlsplit(_required(name))
    if url.scheme not in {"postgresql", "postgres"}:
        raise ImproperlyConfigured(f"{name} must start with postgresql://, not {url.scheme}://.")
    query = parse_qs(url.query)
    return {
        "NAME": unquote(url.path.lstrip("/")),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname or query.get("host", [""])[0],
        "PORT": str(url.port or ""),
    }


def redis_urls() -> tuple[str, str]:
    """Declares REDIS_URL, BROKER_URL and CACHE_URL; returns the broker's URL and the cache's.

    REDIS_URL alone names one server for both: the broker gets the database that it names, the cache the next one.
    """
    common, origin = _read("REDIS_URL")
    broker, of_broker = _read("BROKER_URL")
    cache, of_cache = _read("CACHE_URL")
    if broker is None or cache is None:
        common = _required("REDIS_URL")
    _declare(
        "REDIS_URL", "URL", _masked(common or ""), None, origin,
        "The Redis or Valkey server of broker and cache, as `redis://:password@host:6379/0`. "
        "Not needed where BROKER_URL and CACHE_URL are both set.",
    )  # fmt: skip
    broker = broker or common or ""
    _declare("BROKER_URL", "URL", _masked(broker), "REDIS_URL", of_broker, "Celery's broker.")
    cache = cache or next_redis_database(common or "")
    _declare(
        "CACHE_URL", "URL", _masked(cache), "REDIS_URL with the next database number", of_cache,
        "The cache, which also counts the requests of each API key. Every key in it expires, and it may be emptied at any time.",
    )  # fmt: skip
    return broker, cache


def next_redis_database(url: str) -> str:
    """The URL with its database number raised by one: `redis://host/0` gives `redis://host/1`."""
    parts = urlsplit(url)
    number = parts.path.strip("/") or "0"
    if parts.scheme not in {"redis", "rediss"} or not re.fullmatch("[0-9]{1,5}", number):
        raise ImproperlyConfigured(
            "CACHE_URL must be set, since the cache's database cannot be told from REDIS_URL: "
            "that is not of the form redis://host:6379/0."
        )
    return urlunsplit((*parts[:2], f"/{int(number) + 1}", *parts[3:]))


def _masked(url: str) -> str:
    """The URL with its passwords masked, in front of the host and among the parameters; MASK for what is no URL."""
    try:
        parts = urlsplit(url)
        user, at, host = parts.netloc.rpartition("@")
        if parts.password is not None:
            user = f"{user.partition(':')[0]}:{MASK}"
    except ValueError:
        return MASK
    query = re.sub(r"(?i)([^&=]*(?:pass|key|token|secret)[^&=]*=)[^&]+", rf"\g<1>{MASK}", parts.query)
    return urlunsplit((parts.scheme, f"{user}{at}{host}", parts.path, query, parts.fragment))


def need_package(module: str, *, needed_by: str, install: str) -> None:
    """Refuses a choice whose package is not installed, with the command that installs it. Imports nothing."""
    if importlib.util.find_spec(module) is None:
        raise ImproperlyConfigured(f"{needed_by} needs {module.replace('_', '-')}: {install}")
