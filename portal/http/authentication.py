"""Authenticates requests of the API (`Authorization: Bearer tp_…` names the key) and checks the key's scopes.

The functions serve any application, of DRF or not; the classes make DRF call them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from portal.http.problem_types import NO_WORKING_KEY
from portal.http.problems import Problem
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller, find_caller, note_use
from portal.tenancy.models import Scope

CHALLENGE = 'Bearer realm="tool-portal"'


def unauthenticated() -> Problem:
    """The one refusal for every key that does not work, and for none: it does not tell which."""
    return Problem(401, NO_WORKING_KEY, headers={"WWW-Authenticate": CHALLENGE})


def authenticate_key(authorization: str) -> Caller:
    """The caller whose key an Authorization header holds; notes that the key is in use. Raises Problem 401."""
    scheme, _, key = authorization.partition(" ")
    caller = find_caller(key.strip()) if scheme.lower() == "bearer" else None
    if caller is None:
        raise unauthenticated()
    if caller.use_is_stale:
        with tenant_context(caller.tenant_id):
            note_use(caller)
    return caller


def require_scope(caller: Caller, scope: Scope) -> None:
    """Raises Problem 403 for a key that has neither the scope nor `admin`."""
    if not caller.scopes & {scope, Scope.ADMIN}:
        raise Problem(403, f"This key lacks the scope {scope}.")


def scope_of(view: Any, method: str) -> Scope | None:
    """The scope that a method of a view needs, from the view's `required_scope`: a scope, a dict of scopes by method, or None
    where any live key will do."""
    required: Scope | Mapping[str, Scope] | None = view.required_scope
    return required[method] if isinstance(required, Mapping) else required


class ApiKeyAuthentication(BaseAuthentication):
    """Sets `request.auth` to the Caller; a request without the header is left to HasScope."""

    def authenticate(self, request: Request) -> tuple[None, Caller] | None:
        header = request.headers.get("Authorization", "")
        return (None, authenticate_key(header)) if header else None


class HasScope(BasePermission):
    """Grants a view to keys that hold the scope that it needs, or `admin`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not isinstance(request.auth, Caller):
            raise unauthenticated()
        method = "GET" if request.method == "HEAD" else str(request.method)
        # A method of HTTP, as DRF knows them: a view has other attributes, too.
        known = method != "OPTIONS" and method.lower() in view.http_method_names
        if not known or not hasattr(view, method.lower()):
            raise MethodNotAllowed(str(request.method))
        if scope := scope_of(view, method):
            require_scope(request.auth, scope)
        return True
