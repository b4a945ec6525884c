-- What the reconciler finds (reconcile.py). Each runs inside the context of one tenant.

-- name: prune_tasks
-- Deletes tasks of models without a slot, and of entities without an embedding: a write makes both at once, so the entity is
-- gone. Tasks that another transaction has locked are left to it.
-- In:    tenant, type, models (those that have a slot).
-- Out:   nothing.
-- Index: the unique (tenant_id, entity_type, entity_id, model), and (tenant_id, entity_id, slot) of the embeddings.
DELETE FROM embeddings_embeddingtask WHERE id IN (
    SELECT t.id FROM embeddings_embeddingtask t
    WHERE t.tenant_id = %(tenant)s AND t.entity_type = %(type)s AND (
        NOT t.model = ANY(%(models)s)
        OR NOT EXISTS (
            SELECT 1 FROM {embeddings} e WHERE e.tenant_id = t.tenant_id AND e.entity_id = t.entity_id))
    FOR UPDATE SKIP LOCKED)

-- name: find_unqueued
-- The active entities whose embedding in `slot` has work to be done but no task that does it: its status is one of `waiting`, it
-- is ready by another model, it failed and not even a parked task is left, it is ready without token signs although they are
-- `signed` by this model, or it is missing or differs from the one in the slot `reference`. If both are one slot, `e` and `o` are the same row, which differs from itself in nothing.
-- In:    tenant, slot, reference (a slot), model (of `slot`), signed (its provider gives word pieces), type, waiting (statuses), after (an entity id), limit.
-- Out:   entity_id, ascending, greater than `after`.
-- Index: the unique (tenant_id, entity_id, slot) of the embeddings, (tenant_id, entity_type, entity_id, model) of the tasks.
SELECT e.entity_id FROM {embeddings} e LEFT JOIN {embeddings} o
    ON o.tenant_id = e.tenant_id AND o.entity_id = e.entity_id AND o.slot = %(slot)s
WHERE e.tenant_id = %(tenant)s AND e.active AND e.slot = %(reference)s AND e.entity_id > %(after)s
    AND (o.id IS NULL OR o.source_hash <> e.source_hash OR NOT o.active OR o.status = ANY(%(waiting)s) OR o.status = 'failed'
        OR (o.status = 'ready' AND (o.model <> %(model)s OR (%(signed)s AND o.token_signs IS NULL))))
    AND NOT EXISTS (
        SELECT 1 FROM embeddings_embeddingtask t
        WHERE t.tenant_id = e.tenant_id AND t.entity_type = %(type)s AND t.entity_id = e.entity_id
            AND t.model = %(model)s AND (t.status <> 'failed' OR o.status = 'failed'))
ORDER BY e.entity_id LIMIT %(limit)s
