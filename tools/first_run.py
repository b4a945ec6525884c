"""What a new portal needs before anybody can use it: the default tenant, its operator, an API key, the demo catalogue.

All of it happens once, in one transaction that also writes the file of secrets, because that file is the only place
where password and key are kept: either both exist or neither. Later runs only look. It runs as the owner of the
database, which alone may make tenants.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pghistory
from django.contrib.auth import get_user_model
from django.db import connection, transaction

from portal.embedded.credentials import write_private
from portal.embedded.errors import ServiceError
from portal.embedded.layout import unwritable
from portal.tenancy.commands import DEFAULT_TENANT
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import MAX_LIFETIME, create_api_key, digest
from portal.tenancy.models import ApiKey, Membership, Role, Scope, Tenant
from tools.demo import import_demo, parse_demo

ACTOR = KEY_NAME = "first run"
USERNAME = "operator"


@dataclass(frozen=True, slots=True)
class FirstRun:
    """What a run did: `created` the tenant with `tools` demo tools, or `renewed` the secrets because they were lost."""

    created: bool
    renewed: bool
    tools: int
    key_name: str


def first_run(*, file: Path, url: str, demo: bool = True) -> FirstRun:
    """Makes what is missing and writes `file`: {url, username, password, api_key}, mode 0600.

    Nothing changes when `file` holds a key of this database. Without such a file an existing tenant gets one more key,
    and its operator a new password. Raises ServiceError when `file` cannot be read or written, and then nothing is stored.
    """
    # Only with the tenant: demo tools that somebody deleted must not come back.
    is_new = not Tenant.objects.filter(slug=DEFAULT_TENANT).exists()
    documents = parse_demo() if is_new and demo else []
    with transaction.atomic():
        with connection.cursor() as cursor:
            # Two runs at once would make two keys and keep one; the second waits and then finds everything done.
            cursor.execute("SET LOCAL lock_timeout = '60s'")
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('portal first run', 0))")
        tenant, created = Tenant.objects.get_or_create(slug=DEFAULT_TENANT, defaults={"name": "Default"})
        if not created and _holds_known_key(file, tenant.pk):
            return FirstRun(created=False, renewed=False, tools=0, key_name="")
        with tenant_context(tenant.pk), pghistory.context(actor=ACTOR):
            password = _operator_password()
            key_name = _free_key_name()
            _, key = create_api_key(name=key_name, scopes=Scope.values, expires_in=MAX_LIFETIME)
        tools = import_demo(documents, tenant_id=tenant.pk, actor=ACTOR) if created else 0
        run = {"url": url, "username": USERNAME, "password": password, "api_key": key}
        _write(file, run)
    return FirstRun(created=created, renewed=not created, tools=tools, key_name=key_name)


def _holds_known_key(file: Path, tenant_id: UUID) -> bool:
    """Whether the file's key is this tenant's, live or revoked; a file of another database or a damaged one is lost."""
    try:
        key = json.loads(file.read_text(encoding="utf-8"))["api_key"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    except OSError as error:
        raise ServiceError(f"{file} cannot be read: {error.strerror}.") from None
    with tenant_context(tenant_id):
        found: bool = ApiKey.objects.filter(digest=digest(str(key))).exists()
    return found


def _write(file: Path, run: dict[str, str]) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(file.parent, error) from None
    write_private(file, json.dumps(run, indent=1) + "\n")


def _operator_password() -> str:
    """A new password of the operator, who is made with every right where there is none."""
    password = secrets.token_urlsafe(15)
    user, _ = get_user_model().objects.get_or_create(
        username=USERNAME, defaults={"is_staff": True, "is_superuser": True}
    )
    user.set_password(password)
    user.save(update_fields=["password"])
    Membership.objects.get_or_create(user=user, defaults={"role": Role.ADMIN})
    return password


def _free_key_name() -> str:
    """`first run`, or with the first number that no key of the tenant has."""
    taken = set(ApiKey.objects.filter(name__startswith=KEY_NAME).values_list("name", flat=True))
    name, number = KEY_NAME, 1
    while name in taken:
        number += 1
        name = f"{KEY_NAME} {number}"
    return name
