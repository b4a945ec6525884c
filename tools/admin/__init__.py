"""Django's admin for every model: raw sight of everything, and writes through the same services as the pages.

Every admin works in the member's tenant (TenantMiddleware), asks for a role there beside Django's own permissions, and
shows states without letting anybody type over them; states change by the named actions. Vectors are never shown.
"""

from __future__ import annotations

from tools.admin import catalogue, history, people, pipeline, tenants

__all__ = ["catalogue", "history", "people", "pipeline", "tenants"]
