"""`services.json`: the URLs with their passwords and the portal's secret key, made once and kept beside the data.

Only the passwords, the secret key and Valkey's port are carried over from one start to the next; the folders are written
each time, so that a project may be moved. Settings read this file (portal/env.py) where the environment says nothing.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from portal.embedded.errors import ServiceError
from portal.embedded.layout import SECRETS, Layout, unwritable

WEB_LOGIN = "portal_web"
WORKER_LOGIN = "portal_embedder"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The passwords of the three database logins and of Valkey, Valkey's last port (0: none yet), Django's key."""

    admin: str
    web: str
    worker: str
    valkey: str
    secret_key: str
    port: int = 0


def load(layout: Layout) -> Credentials:
    """What the last start wrote, or new secrets where nothing was written yet."""
    path = layout.state / SECRETS
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        broker = urlsplit(values["REDIS_URL"])
        return Credentials(
            admin=urlsplit(values["DATABASE_ADMIN_URL"]).password or "",
            web=urlsplit(values["DATABASE_URL"]).password or "",
            worker=urlsplit(values["DATABASE_WORKER_URL"]).password or "",
            valkey=broker.password or "",
            secret_key=values["SECRET_KEY"],
            port=broker.port or 0,
        )
    except FileNotFoundError:
        admin, web, worker, valkey = (secrets.token_urlsafe(24) for _ in range(4))
        return Credentials(admin, web, worker, valkey, secret_key=secrets.token_urlsafe(48))
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise ServiceError(f"{path} is damaged: bring it back from a copy, or run `make reset`.") from None


def generated(state: Path) -> dict[str, str]:
    """The settings that the services of this state folder wrote; {} where there are none."""
    try:
        values: dict[str, str] = json.loads((state / SECRETS).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return values


def save(layout: Layout, urls: dict[str, str]) -> None:
    """Write the file whole or not at all, readable by its owner alone; an unchanged file is not touched."""
    write_private(layout.state / SECRETS, json.dumps(urls, indent=1) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file by one of mode 0600, whole or not at all."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except OSError:
        pass  # It does not exist yet, or the write below says what is wrong.
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(
            os.open(scratch, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
