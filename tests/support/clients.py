"""Clients of the pages and of the API."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client
from rest_framework.test import APIClient
from whitenoise.middleware import WhiteNoiseMiddleware

from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.middleware import FORM_HEADER
from portal.tenancy.models import Membership, Scope, Tenant


def join(tenant: Tenant, user: Any, role: str) -> None:
    """Makes the user a member."""
    with tenant_context(tenant.pk):
        Membership.objects.create(user=user, role=role)


def sign_in(tenant: Tenant, user: Any) -> Client:
    """A signed-in client whose forms are made for this tenant, as a browser's are that shows its pages."""
    client = Client(headers={FORM_HEADER: str(tenant.pk)})
    client.force_login(user)
    return client


def make_client(tenant: Tenant, role: str) -> Client:
    """A client of a new member."""
    user = get_user_model().objects.create_user(username=f"{role}-{uuid.uuid4().hex[:8]}", password=None)
    join(tenant, user, role)
    return sign_in(tenant, user)


def make_api(tenant: Tenant, *scopes: str, **options: Any) -> APIClient:
    with tenant_context(tenant.pk):
        _, key = create_api_key(name=uuid.uuid4().hex, scopes=scopes or Scope.values, **options)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    return client


def find_static_files_once() -> None:
    """For the rest of this process. Each client loads the middleware anew, and that looks at every static file there is."""
    find, found = WhiteNoiseMiddleware.add_files_from_finders, {}

    def once(middleware: Any) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    WhiteNoiseMiddleware.add_files_from_finders = once
