"""What the views of the API have in common: who calls, the tenant's transaction, known parameters, pages, bounded waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model, QuerySet
from django.http import HttpResponseBase
from django_filters import FilterSet
from drf_spectacular.utils import OpenApiParameter, extend_schema_view
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http import idempotency
from portal.http.bulkhead import bulkhead
from portal.json_types import JsonObject
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller
from portal.tenancy.models import Scope
from portal.tenancy.rights import Rights, acting_with
from tools.api.fields import refuse_unknown
from tools.api.pagination import CursorPages
from tools.api.schema.json_schema import SerializerClass, answer_schema
from tools.api.schema.operations import (
    allowed_values,
    filter_parameters,
    operation,
    page,
    page_parameters,
)

Handler = Callable[..., Response]
Row = TypeVar("Row", bound=Model)


def calls_external(handler: Handler) -> Handler:
    """Marks a view's method that asks another server or parses a document. It runs while it holds a place in the bulkhead, and
    outside of the tenant's transaction, which must not wait for the network."""

    @wraps(handler)
    def calling(view: TenantView, *args: object, **kwargs: object) -> Response:
        with bulkhead(view.caller.tenant_id):
            return handler(view, *args, **kwargs)

    vars(calling)["calls_external"] = True
    return calling


def find_row(rows: QuerySet[Row], noun: str, ref: str, *, by: str = "pk") -> Row:
    """Returns the row that a part of the address names, by its UUID or by another field, among those that the caller may see.
    Raises NotFound, with one sentence for a row of another tenant and for one that does not exist."""
    try:
        return rows.get(**{by: UUID(ref) if by == "pk" else ref})
    except (ValueError, ObjectDoesNotExist) as error:
        raise NotFound(f"There is no {noun} {ref!r} here.") from error


class ApiView(APIView):
    """A view that knows the caller and its rights."""

    required_scope: ClassVar[Scope | Mapping[str, Scope] | None]

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.auth)

    @property
    def rights(self) -> Rights:
        """What the key may see and do; `rights.actor` is the author that the history names."""
        return Rights.of_key(self.caller)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Checks key, scope and rate, then lets the method that dispatch will call run with the key's rights."""
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        handler = getattr(self, method, self.http_method_not_allowed)

        @wraps(handler)
        def run(request: Request, *args: object, **kwargs: object) -> HttpResponseBase:
            with acting_with(self.rights):
                return cast(HttpResponseBase, handler(request, *args, **kwargs))

        setattr(self, method, run)


class TenantView(ApiView):
    """A view whose methods run in one transaction of the caller's tenant, unless they are `calls_external`."""

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """As every view of the API, and wraps the method that dispatch will call in the tenant's transaction."""
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        handler = getattr(self, method)
        if not getattr(handler, "calls_external", False):
            setattr(self, method, self._in_tenant(handler))

    def _in_tenant(self, handler: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        def run(request: Request, *args: object, **kwargs: object) -> HttpResponseBase:
            is_repeatable = getattr(handler, "idempotent", False) and idempotency.HEADER in request.headers
            if is_repeatable or getattr(handler, "reads_body", False):
                request.data  # noqa: B018 - read now: an upload may be slow, and no transaction may wait for it
            with tenant_context(self.caller.tenant_id):
                return handler(request, *args, **kwargs)

        return run


class TenantListView(TenantView):
    """A list, page by page. Its schema comes from the attributes, and any parameter that they do not name is refused."""

    list_operation: ClassVar[tuple[str, ...]]
    """Id, summary and, where it needs one, description of the operation."""
    serializer_class: ClassVar[SerializerClass]
    item_schema: ClassVar[JsonObject | None] = None
    """A reference to the component that the serializer has; without one the items are described in place."""
    ordering: ClassVar[tuple[str, ...]]
    filterset_class: ClassVar[type[FilterSet] | None] = None
    query_parameters: ClassVar[Sequence[OpenApiParameter]] = ()
    """Further parameters, which `get_queryset` reads; a value that their schemas do not have is refused."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Describes the list, as `operation` does a method of another view."""
        super().__init_subclass__(**kwargs)
        parameters = [*filter_parameters(cls.filterset_class), *cls.query_parameters, *page_parameters()]
        answer = page(cls.item_schema or answer_schema(cls.serializer_class))
        description = operation(*cls.list_operation, parameters=parameters, answers={200: answer})
        extend_schema_view(get=description)(cls)

    def get_queryset(self) -> QuerySet[Any]:
        """The rows that the caller may see."""
        raise NotImplementedError

    def get(self, request: Request, **address: str) -> Response:
        rows = self.get_queryset()
        if self.filterset_class is not None:
            filtered = self.filterset_class(request.query_params, rows)
            if not filtered.is_valid():
                raise ValidationError(filtered.errors)
            rows = filtered.qs
        pages = CursorPages()
        shown = self.prepare(pages.paginate_queryset(rows, request, view=self) or [])
        serializer = self.serializer_class(shown, many=True, context={"view": self})
        return pages.get_paginated_response(serializer.data)

    def prepare(self, rows: list[Any]) -> list[Any]:
        """The rows of a page with what the serializer needs beside them."""
        return rows

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in {"GET", "HEAD"}:
            self._check_parameters(request.query_params)

    def _check_parameters(self, given: Mapping[str, str]) -> None:
        filters = self.filterset_class.base_filters if self.filterset_class else ()
        known = {one.name: allowed_values(one) for one in self.query_parameters}
        refuse_unknown(given, {*known, *filters, *CursorPages.PARAMETERS})
        for name, values in known.items():
            if values and name in given and given[name] not in values:
                raise ValidationError({name: f"One of these, please: {', '.join(values)}."})
