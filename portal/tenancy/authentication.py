"""DRF's door: `Authorization: Bearer tp_…` names the caller; a view's `required_scope` is what the key must hold."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller, find_caller, note_use
from portal.tenancy.models import Scope


class ApiKeyAuthentication(BaseAuthentication):
    """Sets `request.auth` to the Caller. One and the same answer for every key that does not work."""

    def authenticate(self, request: Request) -> tuple[None, Caller] | None:
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        scheme, _, key = header.partition(" ")
        caller = find_caller(key.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise AuthenticationFailed("This API key is not valid here. Send `Authorization: Bearer KEY`.")
        if caller.use_is_stale:
            with tenant_context(caller.tenant_id):
                note_use(caller)
        return None, caller

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tool-portal"'


class HasScope(BasePermission):
    """Grants a view to keys that hold its `required_scope` (or its method's, for a dict), or `admin`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        caller = request.auth
        if not isinstance(caller, Caller):
            raise NotAuthenticated("Send `Authorization: Bearer KEY`.")
        required = view.required_scope
        scope = required[request.method] if isinstance(required, dict) else required
        if scope not in caller.scopes and Scope.ADMIN not in caller.scopes:
            raise PermissionDenied(f"This key lacks the scope {scope}.")
        return True
