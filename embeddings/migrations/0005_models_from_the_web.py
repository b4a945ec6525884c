"""What the page of models needs (EMB-10): a count over all tenants that shows nothing else, and the right to move the flag.

The web may do with a tenant's vectors whatever it likes, once it has set the tenant; so moving the flag or giving a slot
up tells it nothing and lets it do little more. The vectors of a slot that was given up are the reconciler's to delete.
"""

from __future__ import annotations

from django.db import migrations

# Which tables hold embeddings is read from the catalogue, because this app does not know its users. One that portal_search
# was not given is an error, and never a count that leaves it out.
COMPLETENESS = """
CREATE FUNCTION embeddings_completeness(serving smallint, other smallint, OUT total bigint, OUT ready bigint, OUT failed bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    embedding_table regclass;
    counted record;
BEGIN
    total := 0; ready := 0; failed := 0;
    FOR embedding_table IN
        SELECT c.oid FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND 2 = (
            SELECT count(*) FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attname IN ('slot', 'vector_hash') AND NOT a.attisdropped)
        ORDER BY c.relname
    LOOP
        EXECUTE format($query$
            SELECT count(*) AS total, count(*) FILTER (WHERE o.status = 'ready' AND o.source_hash = e.source_hash) AS ready,
                count(*) FILTER (WHERE o.status = 'failed' AND o.source_hash = e.source_hash) AS failed
            FROM %s e LEFT JOIN %s o ON o.tenant_id = e.tenant_id AND o.entity_id = e.entity_id AND o.slot = $2
            WHERE e.slot = $1 AND e.active AND e.status = 'ready'
        $query$, embedding_table, embedding_table) INTO counted USING serving, other;
        total := total + counted.total;
        ready := ready + counted.ready;
        failed := failed + counted.failed;
    END LOOP;
END;
$$;

DO $$
BEGIN
    GRANT CREATE ON SCHEMA public TO portal_search;
    ALTER FUNCTION embeddings_completeness OWNER TO portal_search;
    REVOKE CREATE ON SCHEMA public FROM portal_search;
    REVOKE ALL ON FUNCTION embeddings_completeness FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION embeddings_completeness TO portal_app, portal_worker;
    GRANT UPDATE (serves), DELETE ON embeddings_embeddingmodel TO portal_app;
END $$;
"""

BACK = """
DROP FUNCTION embeddings_completeness;
REVOKE UPDATE (serves), DELETE ON embeddings_embeddingmodel FROM portal_app;
"""


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0004_fair_claims")]

    operations = [migrations.RunSQL(COMPLETENESS, BACK)]
