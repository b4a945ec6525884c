"""Clients of the pages and of the API."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Membership, Scope, Tenant


def make_client(tenant: Tenant, role: str) -> Client:
    user = get_user_model().objects.create_user(username=f"{role}-{uuid.uuid4().hex[:8]}", password=None)
    with tenant_context(tenant.pk):
        Membership.objects.create(user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


def make_api(tenant: Tenant, *scopes: str, **options: Any) -> APIClient:
    with tenant_context(tenant.pk):
        _, key = create_api_key(name=uuid.uuid4().hex, scopes=scopes or Scope.values, **options)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    return client
