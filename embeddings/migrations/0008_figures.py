"""What an operator watches of the queue (RELIABILITY R20): sums over all tenants, which show nothing of any.

The function is the web's only sight of other tenants' tasks. Its owner is given the four columns that it counts by.
"""

from __future__ import annotations

from django.db import migrations

FIGURES = """
GRANT SELECT (status, priority, attempts, next_attempt_at) ON embeddings_embeddingtask TO portal_search;

CREATE FUNCTION embeddings_figures(max_attempts integer) RETURNS TABLE (figure text, label text, value double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT 'tasks', status, count(*)::float8 FROM public.embeddings_embeddingtask GROUP BY status
    UNION ALL
    SELECT 'waiting', priority::text, extract(epoch FROM now() - min(next_attempt_at))::float8
    FROM public.embeddings_embeddingtask WHERE status = 'pending' AND next_attempt_at <= now() GROUP BY priority
    UNION ALL
    SELECT 'expired', '', count(*)::float8
    FROM public.embeddings_embeddingtask WHERE status = 'running' AND next_attempt_at <= now()
    UNION ALL
    -- By the attempts, since an error's words may repeat a tenant's text.
    SELECT 'failed', CASE WHEN attempts > max_attempts THEN 'worker_ended'
        WHEN attempts = max_attempts THEN 'attempts_used' ELSE 'refused' END AS cause, count(*)::float8
    FROM public.embeddings_embeddingtask WHERE status = 'failed' GROUP BY cause
    UNION ALL
    SELECT 'dead_rows', '', pg_stat_get_dead_tuples('public.embeddings_embeddingtask'::regclass)::float8
    UNION ALL
    -- Others' sessions are seen by those who may read all statistics. Where that could not be granted there is no figure.
    SELECT 'oldest_snapshot', '', COALESCE(max(extract(epoch FROM now() - xact_start)), 0)::float8
    FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
    HAVING pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
$$;

DO $$
BEGIN
    BEGIN
        GRANT pg_read_all_stats TO portal_search;
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;
    END;
    GRANT CREATE ON SCHEMA public TO portal_search;
    ALTER FUNCTION embeddings_figures OWNER TO portal_search;
    REVOKE CREATE ON SCHEMA public FROM portal_search;
    REVOKE ALL ON FUNCTION embeddings_figures FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION embeddings_figures TO portal_app;
END $$;
"""

BACK = """
DROP FUNCTION embeddings_figures;
REVOKE SELECT (status, priority, attempts, next_attempt_at) ON embeddings_embeddingtask FROM portal_search;
"""


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0007_circuits")]

    operations = [migrations.RunSQL(FIGURES, BACK)]
