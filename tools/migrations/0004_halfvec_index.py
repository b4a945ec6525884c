"""The HNSW indexes hold half-precision copies: half the pages to visit, and the search compares the candidates in full
precision. With them the candidate function that uses them."""

from __future__ import annotations

from django.db import migrations

from tools.search.sql import load

HALF = """
DROP INDEX tools_toolembedding_hnsw_0, tools_toolembedding_hnsw_1;
CREATE INDEX tools_toolembedding_hnsw_0 ON tools_toolembedding USING hnsw ((vector::halfvec(384)) halfvec_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 0 AND active AND status = 'ready';
CREATE INDEX tools_toolembedding_hnsw_1 ON tools_toolembedding USING hnsw ((vector::halfvec(384)) halfvec_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 1 AND active AND status = 'ready';
"""

FULL = """
DROP INDEX tools_toolembedding_hnsw_0, tools_toolembedding_hnsw_1;
CREATE INDEX tools_toolembedding_hnsw_0 ON tools_toolembedding USING hnsw (vector vector_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 0 AND active AND status = 'ready';
CREATE INDEX tools_toolembedding_hnsw_1 ON tools_toolembedding USING hnsw (vector vector_ip_ops)
    WITH (m = 16, ef_construction = 64) WHERE slot = 1 AND active AND status = 'ready';
"""


class Migration(migrations.Migration):
    dependencies = [("tools", "0003_search")]

    operations = [
        migrations.RunSQL(HALF, FULL),
        migrations.RunSQL(load("0004_candidates.sql"), migrations.RunSQL.noop),
    ]
