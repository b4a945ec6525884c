-- What a result shows of its tool (tools/search/service.py). Plain SQL, because composing this query takes the ORM longer than
-- PostgreSQL needs to answer it.
--
-- In: tenant_id, ids (of tools), slot (of the model that serves). Out: a row a tool that is still there, in no order.
-- Indexes: the primary key of tools_tool, and the unique one of tools_toolembedding over tenant, entity and slot. The status is
-- a correlated subquery and no join: before the first ANALYZE a join reads every embedding of the tenant.
SELECT tool.id, tool.tool_id, tool.namespace, tool.name, tool.description, tool.server, tool.category, tool.tags,
       tool.tool_type, tool.source_protocol, tool.routing_domain, tool.sensitivity, source.slug AS source__slug,
       (SELECT embedding.status FROM tools_toolembedding AS embedding
        WHERE embedding.tenant_id = tool.tenant_id AND embedding.entity_id = tool.id AND embedding.slot = %(slot)s) AS embedding_status
FROM tools_tool AS tool LEFT JOIN tools_source AS source ON source.tenant_id = tool.tenant_id AND source.id = tool.source_id
WHERE tool.tenant_id = %(tenant_id)s AND tool.id = ANY(%(ids)s)
