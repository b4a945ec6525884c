"""The net under the net: finds embeddings that wait without a task, whatever bug or restore left them so.

Runs every few minutes from beat and at the start of a worker; a healthy catalogue costs one index scan a tenant.
"""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from embeddings import queue, registry
from embeddings.queue import SERVING_SLOT
from portal.tenancy.context import current_tenant, tenant_context

LIMIT = 1000


def reconcile() -> int:
    """Queues what is `pending` without a live task, in every tenant; returns how many. Needs the worker's login."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM tenancy_tenant ORDER BY id")
        tenants = [row[0] for row in cursor.fetchall()]
    repaired = 0
    for tenant_id in tenants:
        for entity in registry.all_entities():
            with tenant_context(tenant_id):
                repaired += _requeue_orphans(entity)
    return repaired


def _requeue_orphans(entity: registry.EmbeddedEntity) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT e.entity_id FROM {entity.table} e
            WHERE e.tenant_id = %s AND e.active AND e.slot = %s AND e.status = 'pending' AND NOT EXISTS (
                SELECT 1 FROM embeddings_embeddingtask t
                WHERE t.tenant_id = e.tenant_id AND t.entity_type = %s AND t.entity_id = e.entity_id AND t.model = %s
                    AND t.status <> 'failed')
            ORDER BY e.entity_id LIMIT %s
            """,
            [current_tenant(), SERVING_SLOT, entity.type, settings.EMBEDDING_MODEL, LIMIT],
        )
        ids = [row[0] for row in cursor.fetchall()]
    return queue.ask_again(entity, ids, refresh=True)
