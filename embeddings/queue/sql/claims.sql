-- What a worker does with tasks (claims.py). `ours` is the fence: a statement changes only tasks whose claim still holds.

-- name: due
-- The tasks of a lane (a tenant and a priority) that may be claimed now; part of `claim`.
-- Index: embedding_task_due (tenant_id, priority, next_attempt_at) without failed rows.
task.tenant_id = lane.tenant_id AND task.priority = lane.priority AND task.next_attempt_at >= lane.seen
AND task.next_attempt_at <= now() AND task.status <> 'failed' AND task.entity_type = ANY(%(types)s)
AND task.model = ANY(%(models)s) AND task.model <> ALL (ARRAY(
    SELECT model FROM embeddings_embeddingcircuit WHERE purpose = 'passage' AND next_try IS NOT NULL))

-- name: claim
-- Claims due tasks of all tenants: pending -> running, and running -> running where the lease has ended.
-- Every tenant with due tasks has an equal share, and of each tenant its most urgent priority alone: its edits come before its
-- backfills, and take nothing of the share of another tenant (SEC-5). A task whose lease has ended is claimed alone, since it may be
-- what killed its worker.
-- In:    limit, claim (the new claim id), lease (seconds), margin (seconds), types, models, priorities, and the watermarks:
--        seen_tenants, seen_priorities, seen_times (parallel arrays).
-- Out:   id, tenant_id, entity_type, entity_id, source_hash, attempts, claim_id, model, the status before, priority, watermark.
-- Locks: the claimed tasks; locked ones are skipped.
-- Index: embedding_task_due, from the watermark of each lane.
WITH lanes AS (
    -- A lane starts a little before its watermark, since writes commit in another order than that of their times.
    SELECT tenant.id AS tenant_id, urgent.priority,
        COALESCE(seen.at - make_interval(secs => %(margin)s), '-infinity') AS seen
    FROM tenancy_tenant AS tenant CROSS JOIN unnest(%(priorities)s::smallint[]) AS urgent(priority)
    LEFT JOIN unnest(%(seen_tenants)s::uuid[], %(seen_priorities)s::smallint[], %(seen_times)s::timestamptz[])
        AS seen(tenant_id, priority, at) ON seen.tenant_id = tenant.id AND seen.priority = urgent.priority
), served AS MATERIALIZED (
    SELECT *, (%(limit)s + count(*) OVER () - 1) / count(*) OVER () AS share FROM (
        SELECT DISTINCT ON (tenant_id) * FROM lanes AS lane
        -- OFFSET keeps the planner from making a join of EXISTS, which would read the whole queue.
        WHERE EXISTS (SELECT FROM embeddings_embeddingtask AS task WHERE {due} OFFSET 0)
        ORDER BY tenant_id, priority
    ) AS urgent
    ORDER BY priority, random()
), first AS MATERIALIZED (
    -- Read in the order of `served`: where there are more tenants than `limit`, those with edits come first.
    SELECT free.* FROM served AS lane CROSS JOIN LATERAL (
        SELECT id, tenant_id, priority, status, next_attempt_at FROM embeddings_embeddingtask AS task WHERE {due}
        ORDER BY next_attempt_at LIMIT lane.share FOR UPDATE SKIP LOCKED
    ) AS free LIMIT %(limit)s
), due AS (
    SELECT id, status, min(next_attempt_at) OVER (PARTITION BY tenant_id) AS watermark FROM first
), abandoned AS (
    SELECT * FROM due WHERE status = 'running' LIMIT 1
), chosen AS (
    SELECT * FROM abandoned UNION ALL SELECT * FROM due WHERE NOT EXISTS (SELECT FROM abandoned)
)
UPDATE embeddings_embeddingtask AS t SET
    status = 'running', claim_id = %(claim)s, attempts = attempts + 1,
    next_attempt_at = now() + make_interval(secs => %(lease)s)
FROM chosen WHERE t.id = chosen.id
RETURNING t.id, tenant_id, entity_type, entity_id, source_hash, attempts, claim_id, model, chosen.status, priority, chosen.watermark

-- name: ours
-- The tasks whose claim still holds; part of the statements below. A task that another transaction has locked is skipped: it is
-- being enqueued again, or comes back with the end of its lease.
-- In:    tasks, claims (parallel arrays).
-- Index: the primary key.
SELECT t.id FROM embeddings_embeddingtask t
JOIN unnest(%(tasks)s::uuid[], %(claims)s::uuid[]) AS r(id, claim_id) ON t.id = r.id AND t.claim_id = r.claim_id
FOR UPDATE OF t SKIP LOCKED

-- name: extend
-- The heartbeat: running -> running with a new lease.
-- In:    tasks, claims, lease (seconds).
-- Out:   nothing.
UPDATE embeddings_embeddingtask SET next_attempt_at = now() + make_interval(secs => %(lease)s)
WHERE id IN ({ours})

-- name: drop
-- Deletes the tasks of entities that are gone or inactive: running -> (no task).
-- In:    tasks, claims.
-- Out:   nothing.
DELETE FROM embeddings_embeddingtask WHERE id IN ({ours})

-- name: release
-- Gives tasks back without counting the attempt: running -> pending.
-- In:    tasks, claims, error, delay (seconds).
-- Out:   nothing.
UPDATE embeddings_embeddingtask SET status = 'pending', claim_id = NULL, last_error = %(error)s,
    attempts = GREATEST(attempts - 1, 0), next_attempt_at = now() + make_interval(secs => %(delay)s)
WHERE id IN ({ours})

-- name: retry_later
-- Lets one task wait after an attempt that failed: running -> pending.
-- In:    task, claim, error, delay (seconds).
-- Out:   nothing.
-- Index: the primary key.
UPDATE embeddings_embeddingtask SET status = 'pending', claim_id = NULL, last_error = %(error)s,
    next_attempt_at = now() + make_interval(secs => %(delay)s)
WHERE id = %(task)s AND claim_id = %(claim)s

-- name: lock_current
-- Locks the embeddings that still want the text that was embedded; waits for rows that another transaction has locked.
-- In:    entities, hashes (parallel arrays), tenant, slot.
-- Out:   entity_id of each.
-- Index: the unique (tenant_id, entity_id, slot).
SELECT e.entity_id FROM {embeddings} e
JOIN unnest(%(entities)s::uuid[], %(hashes)s::text[]) AS r(entity_id, source_hash)
    ON e.entity_id = r.entity_id AND e.source_hash = r.source_hash
WHERE e.tenant_id = %(tenant)s AND e.slot = %(slot)s AND e.active
FOR UPDATE OF e

-- name: lock_current_unlocked
-- As `lock_current`, without those that another transaction has locked.
{lock_current} SKIP LOCKED

-- name: store
-- Stores vectors and deletes their tasks: running -> (no task), pending -> ready. The embeddings are locked by `lock_current`,
-- so their tasks may be locked now.
-- In:    entities, hashes, vectors, signs, truncated, tasks, claims (parallel arrays), current (the entities that are locked), tenant,
--        slot, model.
-- Out:   entity_id and lag (seconds since the request) of every stored vector.
-- Index: the primary key of the tasks, the unique (tenant_id, entity_id, slot) of the embeddings.
WITH ours AS (
    DELETE FROM embeddings_embeddingtask t
    USING unnest(%(tasks)s::uuid[], %(hashes)s::text[]) AS r(id, source_hash)
    WHERE t.id IN ({ours}) AND t.id = r.id AND t.source_hash = r.source_hash
        AND t.entity_id = ANY(%(current)s)
    RETURNING t.entity_id, extract(epoch FROM clock_timestamp() - t.wanted_at)::float8 AS lag
)
UPDATE {embeddings} e SET
    vector = r.vector::vector, token_signs = r.signs, vector_hash = r.source_hash, status = 'ready', error = '',
    model = %(model)s, truncated = r.truncated, embedded_at = now()
FROM ours JOIN unnest(%(entities)s::uuid[], %(hashes)s::text[], %(vectors)s::text[], %(signs)s::bytea[], %(truncated)s::bool[])
    AS r(entity_id, source_hash, vector, signs, truncated) USING (entity_id)
WHERE e.tenant_id = %(tenant)s AND e.slot = %(slot)s AND e.entity_id = r.entity_id
RETURNING e.entity_id, ours.lag

-- name: lock_failed
-- Locks the embedding of a task that is about to be parked, if it still wants the task's text.
-- In:    entity, hash, tenant, slot.
-- Out:   a row, or none.
-- Index: the unique (tenant_id, entity_id, slot).
SELECT 1 FROM {embeddings}
WHERE tenant_id = %(tenant)s AND entity_id = %(entity)s AND slot = %(slot)s AND source_hash = %(hash)s FOR UPDATE

-- name: park
-- Parks one task with its error: running -> failed.
-- In:    task, claim, hash, error.
-- Out:   nothing; the number of rows tells whether it was ours.
-- Index: the primary key.
UPDATE embeddings_embeddingtask SET status = 'failed', claim_id = NULL, last_error = %(error)s
WHERE id = %(task)s AND claim_id = %(claim)s AND source_hash = %(hash)s

-- name: fail
-- Records the error beside the vector: pending -> failed. A vector of the current text goes on serving: only its refresh failed.
-- In:    entity, hash, error, tenant, slot.
-- Out:   nothing.
-- Index: the unique (tenant_id, entity_id, slot).
UPDATE {embeddings} SET error = %(error)s,
    status = CASE WHEN vector_hash = source_hash THEN 'ready' ELSE 'failed' END
WHERE tenant_id = %(tenant)s AND entity_id = %(entity)s AND slot = %(slot)s AND source_hash = %(hash)s
