"""The keyword index and the candidate function (tools/search/sql/). Raw SQL, because it is PostgreSQL's own language."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.rls import isolate
from tools.search.sql import load


# A generated column needs an immutable expression, hence the configuration's full name.
SEARCH_VECTOR = """
ALTER TABLE tools_tool ADD COLUMN search_vector tsvector NOT NULL GENERATED ALWAYS AS (
    setweight(to_tsvector('pg_catalog.english', tools_words(name)), 'A')
    || setweight(to_tsvector('pg_catalog.english', tools_words(description)), 'B')
    || setweight(to_tsvector('pg_catalog.english', tools_words(search_text)), 'C')) STORED;

-- No reference to the tool: the trigger deletes a tool's postings with it. Bytewise order, as lexemes have no language.
CREATE TABLE tools_posting (
    tenant_id uuid NOT NULL,
    lexeme text COLLATE "C" NOT NULL,
    tool_id uuid NOT NULL,
    weight real NOT NULL
);
CREATE UNIQUE INDEX tools_posting_once ON tools_posting (tenant_id, lexeme, tool_id) INCLUDE (weight);
"""

INDEXES = """
-- Filters are resolved to ids before anything is ranked, from the index alone; tags need one of their own.
CREATE INDEX tools_tool_facets ON tools_tool (tenant_id) INCLUDE (id, tool_type, category, source_protocol, source_id,
    routing_domain, namespace, sensitivity, visibility, lifecycle) WHERE active;
CREATE INDEX tools_tool_tags ON tools_tool USING gin (tags) WHERE active;
-- The tools that no search shows, which an unfiltered search takes out by name.
CREATE INDEX tools_tool_hidden ON tools_tool (tenant_id, id)
    WHERE active AND (visibility <> 'public' OR lifecycle = 'retired');
CREATE INDEX tools_toolembedding_ready ON tools_toolembedding (tenant_id, slot) WHERE active AND status = 'ready';
-- Inner product, as all vectors have norm 1. One index a slot: a partial index cannot say "the active model".
CREATE INDEX tools_toolembedding_hnsw_0 ON tools_toolembedding USING hnsw (vector vector_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 0 AND active AND status = 'ready';
CREATE INDEX tools_toolembedding_hnsw_1 ON tools_toolembedding USING hnsw (vector vector_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 1 AND active AND status = 'ready';
"""

# Until statistics exist PostgreSQL takes a tenant for one row, and joins a new catalogue of ten thousand tools by trying
# every pair. Autovacuum comes a minute later; an import cannot wait for it, and only the owner may ask.
ANALYZE = """
CREATE FUNCTION tools_analyze() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    ANALYZE tools_tool, tools_toolembedding, tools_posting, tools_endpoint, embeddings_embeddingtask;
END;
$$;
REVOKE ALL ON FUNCTION tools_analyze() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tools_analyze() TO portal_app;
"""

HAND_OVER = """
GRANT SELECT ON tools_tool, tools_toolembedding, tools_posting TO portal_search;
DO $$
DECLARE signature text;
BEGIN
    GRANT CREATE ON SCHEMA public TO portal_search;
    FOR signature IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'tools_search_candidates' LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO portal_search', signature);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO portal_app, portal_worker', signature);
    END LOOP;
    REVOKE CREATE ON SCHEMA public FROM portal_search;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tools", "0002_isolation")]

    operations = [
        migrations.RunSQL(load("0003_words.sql"), "DROP FUNCTION tools_words(text)"),
        migrations.RunSQL(
            SEARCH_VECTOR, "DROP TABLE tools_posting; ALTER TABLE tools_tool DROP COLUMN search_vector"
        ),
        isolate("tools_posting", worker="SELECT"),
        migrations.RunSQL(
            load("0003_postings.sql"),
            "DROP FUNCTION tools_index_postings() CASCADE; DROP FUNCTION tools_posting_weights(tsvector)",
        ),
        migrations.RunSQL(
            INDEXES,
            "DROP INDEX tools_tool_facets, tools_tool_tags, tools_toolembedding_hnsw_0, tools_toolembedding_hnsw_1, tools_toolembedding_ready, tools_tool_hidden",
        ),
        migrations.RunSQL(load("0003_candidates.sql"), "DROP FUNCTION tools_search_candidates"),
        migrations.RunSQL(ANALYZE, "DROP FUNCTION tools_analyze()"),
        migrations.RunSQL(HAND_OVER, "REVOKE ALL ON tools_tool, tools_toolembedding FROM portal_search"),
    ]
