"""Records who signed in, who failed to, and who was throttled, in every tenant of that person (S16), and begins a session in one
of these.

Django's own signals call it, so that every form that signs people in is covered: that of the pages, that of the admin, and the
next one. Changes of memberships and of API keys are recorded by triggers (portal/tenancy/history.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import cast

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.db.models.functions import Now
from django.http import HttpRequest

from portal.http.request_ids import current_request_id
from portal.tenancy.context import tenant_context, tenant_ids
from portal.tenancy.middleware import Member, memberships, pin_session
from portal.tenancy.models import SignIn, SignInOutcome

log = logging.getLogger(__name__)

THROTTLED_EVERY = timedelta(minutes=1)
# Of throttled attempts, with which anybody could fill the log, the failed ones before them have told.
_LEVELS = {
    SignInOutcome.SUCCEEDED: logging.INFO,
    SignInOutcome.FAILED: logging.WARNING,
    SignInOutcome.THROTTLED: logging.DEBUG,
}


def prune_sign_ins() -> int:
    """Deletes what is older than SIGN_INS_KEPT_DAYS in every tenant; returns how many. Needs the worker's login."""
    pruned = 0
    for tenant_id in tenant_ids():
        with tenant_context(tenant_id):
            old = SignIn.objects.filter(at__lt=Now() - timedelta(days=settings.SIGN_INS_KEPT_DAYS))
            pruned += old.delete()[0]
    return pruned


def record_sign_in(username: str, outcome: SignInOutcome, request: HttpRequest | None) -> None:
    """Adds the attempt to the sign-ins of each tenant that the person is a member of.

    A name that belongs to no member of a tenant stands in the log alone, and there without the name: it may be a password that
    was typed into the wrong field. Of a person's throttled attempts one a minute is recorded, so that they cannot fill a table.
    """
    user = get_user_model().objects.filter(username=username).first()
    _record(username if user else "", memberships(user.pk) if user else [], outcome, request)


def _record(
    username: str, tenants: Iterable[Member], outcome: SignInOutcome, request: HttpRequest | None
) -> None:
    address = request.META.get("REMOTE_ADDR") or None if request else None
    log.log(
        _LEVELS[outcome],
        "Sign-in %s: %s from %s",
        outcome.value,
        username or "unknown name",
        address or "no address",
    )
    for member in tenants:
        with tenant_context(member.tenant_id):
            earlier = SignIn.objects.filter(
                username=username, outcome=outcome, at__gt=Now() - THROTTLED_EVERY
            )
            if outcome is SignInOutcome.THROTTLED and earlier.exists():
                continue
            SignIn.objects.create(
                username=username, outcome=outcome, address=address, request_id=current_request_id() or ""
            )


def _succeeded(*, request: HttpRequest, user: AbstractBaseUser, **_: object) -> None:
    tenants = memberships(cast(int, user.pk))
    pin_session(request, tenants)
    _record(user.get_username(), tenants, SignInOutcome.SUCCEEDED, request)


def _failed(*, credentials: Mapping[str, str], request: HttpRequest | None = None, **_: object) -> None:
    record_sign_in(credentials.get("username", ""), SignInOutcome.FAILED, request)


def connect() -> None:
    """Makes Django tell of every sign-in, by the portal's form and by the admin's. An app calls it when it is ready."""
    user_logged_in.connect(_succeeded, dispatch_uid="portal.sign_ins")
    user_login_failed.connect(_failed, dispatch_uid="portal.sign_ins")
