-- The writes of enqueue.py. Each runs in the transaction of the write that changes an entity, inside the tenant's context.

-- name: upsert_embeddings
-- Stores the wanted source hash of each entity in each slot.
-- In:    ids, active, hashes, statuses (parallel arrays, one element an entity), slots, models (parallel, one element a slot),
--        tenant, dimension, refresh (write rows that have not changed, too), enabled (a provider is configured).
-- Out:   entity_id, slot and has_work of every row that was written.
-- Locks: the written rows, by entity and then by slot, the serving one first: the order of every write.
-- Index: the unique (tenant_id, entity_id, slot) finds the conflict.
INSERT INTO {embeddings} AS e
    (id, tenant_id, entity_id, slot, active, source_hash, status, model, dimension, truncated, error)
SELECT gen_random_uuid(), %(tenant)s, w.entity_id, s.slot, w.active, w.source_hash, w.status,
       s.model, %(dimension)s, false, ''
FROM unnest(%(ids)s::uuid[], %(active)s::bool[], %(hashes)s::text[], %(statuses)s::text[])
    AS w(entity_id, active, source_hash, status)
CROSS JOIN unnest(%(slots)s::smallint[], %(models)s::text[]) WITH ORDINALITY AS s(slot, model, place)
ORDER BY w.entity_id, s.place
ON CONFLICT (tenant_id, entity_id, slot) DO UPDATE SET
    active = excluded.active,
    source_hash = excluded.source_hash,
    -- A vector that was made from this text serves again without a new one.
    status = CASE WHEN e.vector_hash = excluded.source_hash THEN 'ready' ELSE excluded.status END,
    model = CASE WHEN e.vector IS NULL THEN excluded.model ELSE e.model END,
    vector = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.vector END,
    token_signs = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.token_signs END,
    vector_hash = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.vector_hash END,
    embedded_at = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.embedded_at END,
    truncated = e.truncated AND excluded.status <> 'blank',
    error = ''
WHERE %(refresh)s OR e.source_hash <> excluded.source_hash OR e.active <> excluded.active
RETURNING e.entity_id, e.slot, e.active AND %(enabled)s AND (e.status = 'pending' OR (e.status = 'ready' AND (
    %(refresh)s OR e.model <> (%(models)s::text[])[array_position(%(slots)s::smallint[], e.slot)]))) AS has_work

-- name: upsert_tasks
-- Makes a task of each pair of entity and model, or overwrites the one that is there: any -> pending. A running attempt loses
-- its claim here, so the vector of the older text can no longer be stored.
-- In:    ids, models, hashes, versions (parallel arrays), tenant, type, priority.
-- Out:   nothing.
-- Index: the unique (tenant_id, entity_type, entity_id, model) finds the conflict.
INSERT INTO embeddings_embeddingtask AS t (id, tenant_id, entity_type, entity_id, model, source_hash,
    source_version, status, priority, attempts, last_error, next_attempt_at, wanted_at)
-- Each row has a time of its own, so that the tasks of a long write are not all at one place of the index (QueueWatermarks).
SELECT gen_random_uuid(), %(tenant)s, %(type)s, w.entity_id, w.model, w.source_hash,
    w.source_version, 'pending', %(priority)s, 0, '', clock_timestamp(), clock_timestamp()
FROM unnest(%(ids)s::uuid[], %(models)s::text[], %(hashes)s::text[], %(versions)s::int[])
    AS w(entity_id, model, source_hash, source_version)
ON CONFLICT (tenant_id, entity_type, entity_id, model) DO UPDATE SET
    source_hash = excluded.source_hash, source_version = excluded.source_version,
    status = 'pending', attempts = 0, claim_id = NULL, last_error = '', job_id = NULL,
    next_attempt_at = excluded.next_attempt_at, wanted_at = excluded.wanted_at,
    priority = CASE t.status WHEN 'failed' THEN excluded.priority ELSE LEAST(t.priority, excluded.priority) END

-- name: delete_tasks
-- Deletes the entities' tasks of every model outside `models`, and those of the pairs (done_ids, done_models).
-- In:    ids, models (null: of no model outside), done_ids, done_models (parallel arrays), tenant, type.
-- Out:   nothing.
-- Index: the unique (tenant_id, entity_type, entity_id, model).
DELETE FROM embeddings_embeddingtask
WHERE tenant_id = %(tenant)s AND entity_type = %(type)s AND entity_id = ANY(%(ids)s) AND (
    NOT model = ANY(%(models)s::text[])
    OR (entity_id, model) IN (SELECT * FROM unnest(%(done_ids)s::uuid[], %(done_models)s::text[])))

-- name: lock_unlocked
-- Locks the embeddings of one slot that no other transaction has locked.
-- In:    ids, tenant, slot.
-- Out:   entity_id of each.
-- Index: the unique (tenant_id, entity_id, slot).
SELECT entity_id FROM {embeddings} WHERE tenant_id = %(tenant)s AND slot = %(slot)s AND entity_id = ANY(%(ids)s)
FOR UPDATE SKIP LOCKED

-- name: lock_embeddings
-- Locks all embeddings of the entities, before their tasks are deleted.
-- In:    ids, tenant.
-- Out:   a row for each, without columns.
-- Index: the unique (tenant_id, entity_id, slot).
SELECT FROM {embeddings} WHERE tenant_id = %(tenant)s AND entity_id = ANY(%(ids)s)
ORDER BY entity_id FOR UPDATE
