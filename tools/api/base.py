"""What the views of the API have in common: who calls, the tenant's transaction, known parameters, pages, bounded waiting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, ClassVar, cast

from django.db.models import QuerySet
from django_filters import FilterSet
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.bulkhead import bulkhead
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller
from portal.tenancy.models import Scope
from portal.tenancy.rights import Rights
from tools.api.pagination import CursorPages

Handler = Callable[..., Any]


def refuse_unknown(given: Iterable[object], known: Collection[str]) -> None:
    """A mistyped filter that is quietly ignored would answer with the whole catalogue. Raises ValidationError."""
    if unknown := sorted({str(name) for name in given} - set(known)):
        sentence = f"There is no such parameter. Known: {', '.join(sorted(known))}."
        raise ValidationError(dict.fromkeys(unknown, sentence))


def calls_external(handler: Handler) -> Handler:
    """A view's method that asks a server elsewhere, or parses a document: it takes one of the bulkhead's places, and runs
    outside of the tenant's transaction, which must not wait for strangers."""

    @wraps(handler)
    def calling(*args: Any, **kwargs: Any) -> Any:
        with bulkhead():
            return handler(*args, **kwargs)

    vars(calling)["calls_external"] = True
    return calling


class ApiView(APIView):
    """A view that knows who calls."""

    required_scope: ClassVar[Scope | Mapping[str, Scope] | None]

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.auth)

    @property
    def rights(self) -> Rights:
        """What the key may see and do; `rights.actor` is the author that the history names."""
        return Rights.of_key(self.caller)

    def require_unbound(self) -> None:
        """Whole documents and plans tell of every tool, so a key that may not see all of them may not read these."""
        if not self.rights.sees_all_sensitivities:
            raise PermissionDenied(
                f"This key is bound to tools that are {self.caller.max_sensitivity} at most."
            )


class TenantView(ApiView):
    """A view whose methods run in one transaction of the caller's tenant, unless they are `calls_external`."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """After key, scope and rate were checked, puts the method that will be called into the tenant's transaction."""
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        handler = getattr(self, method)
        if not getattr(handler, "calls_external", False):
            setattr(self, method, self._in_tenant(handler))

    def _in_tenant(self, handler: Handler) -> Handler:
        def run(request: Request, *args: Any, **kwargs: Any) -> Any:
            if getattr(handler, "reads_body", False):
                request.data  # noqa: B018 - an upload may be slow, and no transaction may wait for it
            with tenant_context(self.caller.tenant_id):
                return handler(request, *args, **kwargs)

        return run


class TenantListView(TenantView):
    """A list, page by page. `get` answers `self.page()`; any other parameter than those declared here is refused."""

    serializer_class: ClassVar[type[serializers.BaseSerializer[Any]]]
    pagination_class: ClassVar[type[CursorPages]] = CursorPages
    filterset_class: ClassVar[type[FilterSet] | None] = None
    choices: ClassVar[Mapping[str, Collection[str]]] = {}
    """Further parameters with the values that each may have; none: any text."""

    def get_queryset(self) -> QuerySet[Any]:
        """The rows that the caller may see."""
        raise NotImplementedError

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in {"GET", "HEAD"}:
            self._check_parameters(request)

    def _check_parameters(self, request: Request) -> None:
        asked = request.query_params
        filters = self.filterset_class.base_filters if self.filterset_class else ()
        refuse_unknown(asked, {*self.choices, *filters, *self.pagination_class.PARAMETERS})
        for name, known in self.choices.items():
            if known and name in asked and asked[name] not in known:
                raise ValidationError({name: f"One of these, please: {', '.join(known)}."})

    def page(self) -> Response:
        rows = self.get_queryset()
        if self.filterset_class is not None:
            filtered = self.filterset_class(self.request.query_params, rows)
            if not filtered.is_valid():
                raise ValidationError(filtered.errors)
            rows = filtered.qs
        pages = self.pagination_class()
        shown = self.prepare(pages.paginate_queryset(rows, self.request, view=self) or [])
        serializer = self.serializer_class(shown, many=True, context={"view": self})
        return pages.get_paginated_response(serializer.data)

    def prepare(self, rows: list[Any]) -> list[Any]:
        """The rows of a page with what the serializer needs beside them."""
        return rows
