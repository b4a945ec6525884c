"""What every view of the API gets from its base: the tenant's transaction, and problems for the errors of services."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from portal.tenancy.context import NoTenant, current_tenant
from portal.tenancy.models import Tenant
from tests.support.clients import make_api
from tools.api.base import ApiView, TenantView, calls_external
from tools.api.me.views import MeView
from tools.api.schema.operations import operation
from tools.api.search.views import SearchView
from tools.api.urls import urlpatterns
from tools.catalogue.errors import Busy

# They open no transaction of their own: the service of search does, and a key is known without one.
WITHOUT_TRANSACTION = {MeView, SearchView}


def ask(tenant: Tenant, view: Any, method: str = "get", **options: Any) -> Response:
    """A request to a view that no address leads to."""
    credentials = make_api(tenant)._credentials
    request = getattr(APIRequestFactory(), method)("/api/v1/new", **options, **credentials)
    response: Response = view.as_view()(request)
    return response


def test_every_view_runs_in_the_tenants_transaction_but_for_those_named_here() -> None:
    views = {pattern.callback.view_class for pattern in urlpatterns}  # type: ignore[union-attr]
    assert all(issubclass(view, ApiView) for view in views)
    assert {view for view in views if not issubclass(view, TenantView)} == WITHOUT_TRANSACTION


class WhereView(TenantView):
    required_scope = None

    def get(self, request: Request) -> Response:
        return Response({"tenant": str(current_tenant()), "atomic": connection.in_atomic_block})

    @calls_external
    def post(self, request: Request) -> Response:
        with pytest.raises(NoTenant):
            current_tenant()
        return Response({})


def test_a_method_runs_in_the_tenant_of_its_key_unless_it_calls_external_servers(owner: Tenant) -> None:
    assert ask(owner, WhereView).data == {"tenant": str(owner.pk), "atomic": True}
    assert ask(owner, WhereView, "post").status_code == 200


def test_an_error_of_a_service_is_a_problem_in_a_view_that_knows_nothing_of_it(owner: Tenant) -> None:
    class Forgetful(TenantView):
        required_scope = None

        def get(self, request: Request) -> Response:
            raise Busy

    refused = ask(owner, Forgetful)
    assert (refused.status_code, refused.data["title"]) == (409, "busy")


def test_a_declared_body_is_read_before_the_transaction_begins(owner: Tenant) -> None:
    class Reads(TenantView):
        required_scope = None

        @operation("reads", "Reads a body", body=dict, answers={200: dict})
        def post(self, request: Request) -> Response:
            raise AssertionError("a body that cannot be read is refused before")

    refused = ask(owner, Reads, "post", data="{", content_type="application/json")
    assert (refused.status_code, refused.data["title"]) == (400, "validation_error")
