"""Typed readers of the process environment, used by settings alone.

A value comes from the environment; what `make up` generated for this folder (`.portal/services.json`) stands in
where the environment says nothing. Nothing here imports Django's settings.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".portal"


def _generated() -> dict[str, str]:
    try:
        values: dict[str, str] = json.loads((STATE / "services.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    return values


GENERATED = _generated()


def text(name: str, default: str | None = None) -> str:
    """The text of `name`; an unset name without default is refused by its name."""
    value = os.environ.get(name) or GENERATED.get(name)
    if value is not None:
        return value
    if default is None:
        raise ImproperlyConfigured(
            f"{name} is not set, and no embedded services were found in {STATE}. Run `make up`, or set {name}."
        )
    return default


def secret(name: str) -> str:
    """A key, or "": from the environment alone, never from a file of this folder, and never in an error."""
    value = os.environ.get(name, "").strip()
    if not all("!" <= character <= "~" for character in value):
        raise ImproperlyConfigured(f"{name} holds characters that no HTTP header can carry.")
    return value


def http_url(name: str, *, needed_by: str) -> str:
    """An http or https address without user and password, or "" where nothing needs one."""
    value = text(name, "").strip()
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


def flag(name: str, *, default: bool) -> bool:
    """True or False as `1`/`true`/`yes`/`on` or `0`/`false`/`no`/`off`; anything else is refused."""
    value = os.environ.get(name)
    if value is None or value == "":
        return default
    lowered = value.strip().lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}.")


def number(name: str, default: float, *, low: float, high: float) -> float:
    """A number within [low, high]; anything else is refused with the range."""
    value = os.environ.get(name)
    if value is None or value == "":
        return default
    try:
        parsed = float(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {value!r}.") from None
    if not low <= parsed <= high:
        raise ImproperlyConfigured(f"{name} must lie between {low:g} and {high:g}, not {value}.")
    return parsed


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """A whole number within [low, high]."""
    parsed = number(name, default, low=low, high=high)
    if parsed != int(parsed):
        raise ImproperlyConfigured(f"{name} must be a whole number, not {parsed:g}.")
    return int(parsed)


def choice(name: str, default: str, *, allowed: tuple[str, ...]) -> str:
    """One of `allowed`."""
    value = os.environ.get(name) or default
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def need_package(module: str, *, needed_by: str, install: str) -> None:
    """Refuses a choice whose package is not installed, with the command that installs it. Imports nothing."""
    if importlib.util.find_spec(module) is None:
        raise ImproperlyConfigured(f"{needed_by} needs {module.replace('_', '-')}: {install}")


def words(name: str, default: str) -> list[str]:
    """A comma-separated list without empty entries."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def database(name: str) -> dict[str, object]:
    """Django's NAME, USER, PASSWORD, HOST and PORT from a URL such as `postgresql://user:pw@host:5432/portal`.

    A Unix socket folder is given as `postgresql://user:pw@/portal?host=%2Fpath%2Fto%2Ffolder`.
    """
    url = urlsplit(text(name))
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
