-- The tasks that a job has enqueued, by their tag `job_id` (job_tasks.py). Each runs inside the tenant's context.

-- name: tag
-- Tags the tasks that were just enqueued for these entities: neither urgent nor claimed, and of embeddings that no other
-- transaction has locked.
-- In:    ids, job, tenant, type, slot, model, priority.
-- Out:   nothing.
-- Index: the unique (tenant_id, entity_type, entity_id, model), and (tenant_id, entity_id, slot) of the embeddings.
WITH unlocked AS MATERIALIZED (
    SELECT entity_id FROM {embeddings}
    WHERE tenant_id = %(tenant)s AND slot = %(slot)s AND entity_id = ANY(%(ids)s)
    FOR UPDATE SKIP LOCKED
)
UPDATE embeddings_embeddingtask t SET job_id = %(job)s
FROM unlocked
WHERE t.tenant_id = %(tenant)s AND t.entity_type = %(type)s AND t.entity_id = unlocked.entity_id
    AND t.model = %(model)s AND t.status = 'pending' AND t.priority = %(priority)s

-- name: count_waiting
-- In:    job, tenant, type.
-- Out:   the number of entities that have a task of the job.
-- Index: embedding_task_of_job (tenant_id, job_id).
SELECT count(DISTINCT entity_id) FROM embeddings_embeddingtask
WHERE tenant_id = %(tenant)s AND job_id = %(job)s AND entity_type = %(type)s

-- name: tagged
-- In:    ids, job, tenant, type.
-- Out:   entity_id of those entities that have a task of the job.
-- Index: embedding_task_of_job (tenant_id, job_id).
SELECT DISTINCT entity_id FROM embeddings_embeddingtask
WHERE tenant_id = %(tenant)s AND job_id = %(job)s AND entity_type = %(type)s AND entity_id = ANY(%(ids)s)

-- name: collect_failures
-- Removes the tag from the parked tasks of the job, except where a task of the same entity (in a second model) is still to be
-- done: that entity is collected when both are over.
-- In:    job, tenant, type.
-- Out:   entity_id and last_error.
-- Index: embedding_task_of_job (tenant_id, job_id).
WITH parked AS MATERIALIZED (
    SELECT id FROM embeddings_embeddingtask t
    WHERE t.tenant_id = %(tenant)s AND t.job_id = %(job)s AND t.entity_type = %(type)s AND t.status = 'failed'
        AND NOT EXISTS (
            SELECT FROM embeddings_embeddingtask o
            WHERE o.tenant_id = t.tenant_id AND o.job_id = t.job_id AND o.entity_type = t.entity_type
                AND o.entity_id = t.entity_id AND o.status <> 'failed')
    FOR UPDATE SKIP LOCKED
)
UPDATE embeddings_embeddingtask t SET job_id = NULL
FROM parked WHERE t.id = parked.id
RETURNING t.entity_id, t.last_error

-- name: untag
-- Removes the tag from the tasks of the job, which stay as they are.
-- In:    job, tenant, type.
-- Out:   nothing.
-- Index: embedding_task_of_job (tenant_id, job_id).
UPDATE embeddings_embeddingtask SET job_id = NULL
WHERE id IN (
    SELECT id FROM embeddings_embeddingtask WHERE tenant_id = %(tenant)s AND job_id = %(job)s AND entity_type = %(type)s
    FOR UPDATE SKIP LOCKED)
