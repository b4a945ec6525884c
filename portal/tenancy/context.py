"""Which tenant the current code acts for: the one way to tenant tables.

`tenant_context` sets the tenant twice, for Python (scoped managers) and for PostgreSQL (row-level security), so that
either alone still isolates. Nothing here decides who may act; see portal/http/authentication.py and middleware.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from django.db import connection, transaction

_tenant: ContextVar[UUID | None] = ContextVar("portal_tenant", default=None)


class NoTenant(RuntimeError):
    """A tenant table was used outside of tenant_context."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


def current_tenant() -> UUID:
    """The tenant of the innermost `tenant_context`; raises NoTenant outside of one."""
    tenant = _tenant.get()
    if tenant is None:
        raise NoTenant
    return tenant


def _tell_database(tenant_id: UUID | None) -> None:
    with connection.cursor() as cursor:
        # Transaction-local, because a session setting would survive in the connection pool. Policies cast it to uuid,
        # so that the empty text of no tenant is an error like a setting that was never made.
        cursor.execute("SELECT set_config('portal.tenant', %s, true)", [str(tenant_id or "")])


def tenant_ids() -> list[UUID]:
    """Every tenant, for what is done in each of them in turn; needs a login that may list them (the worker's, the owner's)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM tenancy_tenant ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


@contextmanager
def tenant_context(tenant_id: UUID) -> Iterator[None]:
    """Opens a transaction in which `tenant_id` is the only tenant that exists; nests, and restores the outer one.

    An exception rolls the (inner) transaction back, and PostgreSQL then restores the setting by itself, as it does at
    the end of the transaction; only a block that ends well inside of another transaction must put it back.
    """
    outer, nested = _tenant.get(), connection.in_atomic_block
    # A thread may inherit the variable, but never the transaction in which the database was told.
    told = nested and outer == tenant_id
    with transaction.atomic():
        token = _tenant.set(tenant_id)
        try:
            if not told:
                _tell_database(tenant_id)
            yield
        finally:
            _tenant.reset(token)
    if nested and not told:
        _tell_database(outer)
