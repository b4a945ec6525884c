-- The signs of the word pieces of some tools (tools/search/name_match.py).
--
-- In: tenant_id, slot, ids (of tools). Out: id and signs of those that have any.
-- Indexes: the unique one of tools_toolembedding over tenant, entity and slot.
SELECT entity_id, token_signs FROM tools_toolembedding
WHERE tenant_id = %(tenant_id)s AND entity_id = ANY (%(ids)s) AND slot = %(slot)s
    AND active AND status = 'ready' AND token_signs IS NOT NULL
