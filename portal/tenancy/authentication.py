"""DRF's door: `Authorization: Bearer tp_…` names the caller; a view's `required_scope` is what the key must hold."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import (
    AuthenticationFailed,
    MethodNotAllowed,
    NotAuthenticated,
    PermissionDenied,
)
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller, find_caller, note_use
from portal.tenancy.models import Scope

# One sentence for every key that does not work, and for none: no telling which.
_NO_KEY = "This needs a valid API key. Send `Authorization: Bearer KEY`."


class ApiKeyAuthentication(BaseAuthentication):
    """Sets `request.auth` to the Caller."""

    def authenticate(self, request: Request) -> tuple[None, Caller] | None:
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        scheme, _, key = header.partition(" ")
        caller = find_caller(key.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise AuthenticationFailed(_NO_KEY)
        if caller.use_is_stale:
            with tenant_context(caller.tenant_id):
                note_use(caller)
        return None, caller

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tool-portal"'


class HasScope(BasePermission):
    """Grants a view to keys that hold its `required_scope`, or `admin`.

    `required_scope` is a scope, a dict of scopes by method, or None where any live key will do.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        caller = request.auth
        if not isinstance(caller, Caller):
            raise NotAuthenticated(_NO_KEY)
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method == "OPTIONS" or not hasattr(view, method.lower()):
            raise MethodNotAllowed(str(request.method))
        required = view.required_scope
        scope = required[method] if isinstance(required, dict) else required
        if scope is not None and not caller.scopes & {scope, Scope.ADMIN}:
            raise PermissionDenied(f"This key lacks the scope {scope}.")
        return True
