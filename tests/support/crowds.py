"""Catalogues of alike tools, made by SQL: so many rows a second that a test can have a hundred thousand."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg

# A tenant is a cluster: its topics stand around one centre, and a vector is its topic's, half turned away. Every second one is a near-duplicate (cosine .95 to .995) of one of the `crowds` first.
FILL = """
WITH random AS MATERIALIZED (
    SELECT t, l2_normalize((SELECT array_agg(random_normal()) FROM generate_series(1, 384) WHERE t IS NOT NULL)::vector) AS vector
    FROM generate_series(-1, %(topics)s - 1) AS t
), topic AS MATERIALIZED (
    SELECT own.t, l2_normalize(centre.vector + own.vector) AS vector
    FROM random AS own JOIN random AS centre ON centre.t = -1 AND own.t >= 0
), noise AS MATERIALIZED (
    SELECT n, l2_normalize((SELECT array_agg(random_normal()) FROM generate_series(1, 384) WHERE n IS NOT NULL)::vector) AS vector
    FROM generate_series(0, %(size)s - 1) AS n
), real AS MATERIALIZED (
    SELECT n, l2_normalize(topic.vector + noise.vector) AS vector FROM noise JOIN topic ON t = n %% %(topics)s
), made AS MATERIALIZED (
    SELECT noise.n, CASE WHEN noise.n %% 2 = 0 OR noise.n < 2 * %(crowds)s THEN own.vector ELSE l2_normalize(
        first.vector * array_fill(near.cosine, ARRAY[384])::vector + noise.vector * array_fill(sqrt(1 - near.cosine ^ 2), ARRAY[384])::vector
    ) END AS vector
    FROM noise JOIN real AS own USING (n)
    JOIN real AS first ON first.n = noise.n / 2 %% %(crowds)s
    CROSS JOIN LATERAL (SELECT 0.95 + 0.045 * random() AS cosine WHERE noise.n IS NOT NULL) AS near
), tool AS (
    INSERT INTO tools_tool (id, tenant_id, tool_id, name, description, description_source, tool_type, category, subcategory, tags,
        tech_stack, use_cases, routing_domain, semantic_namespace, source_protocol, server, sensitivity, target_personas, parameters,
        annotations, semantic_weight, visibility, lifecycle, owner, official, active, core, download_count, version, updated_by,
        search_text, namespace)
    SELECT gen_random_uuid(), %(tenant)s, 't' || n, 't' || n, '', 'manual', 'api', CASE WHEN n %% 100 = 50 THEN 'one' ELSE '' END, '',
        CASE WHEN n %% 10 < 1 THEN ARRAY['ten', 'sixty'] WHEN n %% 10 < 6 THEN ARRAY['sixty'] ELSE '{}' END,
        '{}', '{}', '', '', 'manual', '', 'internal', '{}', '{}', '{}', 1, 'public', 'active', '', false, true, false, 0, 1, '', '', 'public'
    FROM made RETURNING id, tool_id
)
INSERT INTO tools_toolembedding (id, tenant_id, entity_id, slot, active, status, source_hash, vector_hash, vector, model, dimension,
    truncated, error)
SELECT gen_random_uuid(), %(tenant)s, tool.id, 0, true, 'ready', 'x', 'x', made.vector, 'm', 384, false, ''
FROM tool JOIN made ON tool.tool_id = 't' || made.n
"""


def fill(owner: psycopg.Connection[Any], size: int, *, topics: int, crowds: int = 40) -> uuid.UUID:
    """A new tenant with `size` embedded tools in topics of its own; half of them are near-duplicates of `crowds` others. Tools are
    called t0, t1, …; of a hundred one has the category `one`, ten have the tag `ten`, sixty the tag `sixty`."""
    tenant = uuid.uuid4()
    owner.execute(
        "INSERT INTO tenancy_tenant (id, slug, name, created_at) VALUES (%s, %s, 'x', now())",
        [tenant, f"w-{tenant.hex[:12]}"],
    )
    owner.execute("SELECT setseed(%s)", [size / 1_000_000])
    owner.execute(
        FILL, {"tenant": tenant, "size": size, "topics": topics, "crowds": min(crowds, size // 2 or 1)}
    )
    return tenant


def vacuum(owner: psycopg.Connection[Any]) -> None:
    """What autovacuum does within a minute of a load: statistics, and the map that index-only scans need."""
    owner.execute("VACUUM (ANALYZE) tools_tool, tools_toolembedding, tools_posting")
