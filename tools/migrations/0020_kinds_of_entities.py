"""Search knows its tables by the kind of entity, its filters are one argument, and signatures of the vectors take the place of the
HNSW index, which lost tools in a crowd of alike ones.

The signature is a stored column, so the table of embeddings is written anew, a second for some 25,000 vectors; the HNSW indexes
are dropped before, and with them most of what storing a vector cost.
"""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import DO_NOTHING, F, Func
from pgvector.django import BitField

from tools.search.kinds import index_signatures, keep_postings, of_search
from tools.search.sql import load

HALF = """
CREATE INDEX tools_toolembedding_hnsw_0 ON tools_toolembedding USING hnsw ((vector::halfvec(384)) halfvec_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 0 AND active AND status = 'ready';
CREATE INDEX tools_toolembedding_hnsw_1 ON tools_toolembedding USING hnsw ((vector::halfvec(384)) halfvec_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 1 AND active AND status = 'ready';
CREATE INDEX tools_toolembedding_ready ON tools_toolembedding (tenant_id, slot) WHERE active AND status = 'ready';
"""

FACETS = """
DROP INDEX tools_tool_facets;
CREATE INDEX tools_tool_facets ON tools_tool (tenant_id) INCLUDE (id, tool_type, category, source_protocol, source_id,
    routing_domain, semantic_namespace, namespace, sensitivity, visibility, lifecycle, core) WHERE active;
"""
OLD_FACETS = """
DROP INDEX tools_tool_facets;
CREATE INDEX tools_tool_facets ON tools_tool (tenant_id) INCLUDE (id, tool_type, category, source_protocol, source_id,
    routing_domain, namespace, sensitivity, visibility, lifecycle) WHERE active;
"""

OLD_POSTINGS = load("0003_postings.sql")
OLD_TRIGGERS = OLD_POSTINGS[OLD_POSTINGS.index("CREATE FUNCTION tools_index_postings") :]


class Migration(migrations.Migration):
    dependencies = [("tools", "0019_verbose_names"), ("metrics", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX tools_toolembedding_hnsw_0, tools_toolembedding_hnsw_1, tools_toolembedding_ready",
            HALF,
        ),
        migrations.RunSQL(load("0020_signature.sql"), "DROP FUNCTION search_signature"),
        migrations.AddField(
            "toolembedding",
            "signature",
            models.GeneratedField(
                expression=Func(F("vector"), function="search_signature"),
                output_field=BitField(length=1920),
                db_persist=True,
            ),
        ),
        index_signatures("tools_toolembedding"),
        migrations.RunSQL(FACETS, OLD_FACETS),
        migrations.RunSQL("DROP FUNCTION tools_index_postings() CASCADE", OLD_TRIGGERS),
        migrations.RunSQL(
            "ALTER TABLE tools_posting RENAME COLUMN tool_id TO entity_id",
            "ALTER TABLE tools_posting RENAME COLUMN entity_id TO tool_id",
        ),
        keep_postings("tools_tool", "tools_posting"),
        migrations.RunSQL(load("0020_kind_tool.sql"), "DROP FUNCTION search_kind_tool"),
        of_search("search_kind_tool"),
        migrations.RunSQL(load("0020_candidates.sql"), "DROP FUNCTION search_candidates"),
        of_search("search_candidates", callers="portal_app, portal_worker"),
        migrations.RunSQL(
            load("0020_older_processes.sql"),
            "DROP FUNCTION tools_search_candidates;\n"
            + load("0017_candidates.sql")
            + load("0012_hand_over.sql"),
        ),
        # Django's declaration of the renamed column; the table is not Django's to change.
        migrations.DeleteModel("Posting"),
        migrations.CreateModel(
            name="Posting",
            fields=[
                ("pk", models.CompositePrimaryKey("tenant", "lexeme", "entity")),
                ("tenant", models.ForeignKey("tenancy.tenant", DO_NOTHING, related_name="+")),
                ("lexeme", models.TextField(db_collation="C")),
                (
                    "entity",
                    models.ForeignKey("tools.tool", DO_NOTHING, db_constraint=False, related_name="+"),
                ),
                ("weight", models.FloatField()),
            ],
            options={"db_table": "tools_posting", "managed": False},
        ),
    ]
