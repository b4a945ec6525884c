-- What the sentences of a question are ranked by (tools/search/sentences.py): a row a sentence with its lexemes, and a row a candidate
-- that is still there, with the lexemes of its name and the cosine to each sentence.
--
-- In: tenant_id, slot, ids (of the candidates), sentences (texts), vectors (pgvector's text form, one a sentence).
-- Out: place (of a sentence, from 1; NULL: a candidate), id (NULL: a sentence), lexemes, cosines (NULL: a sentence, or a tool without
-- a vector). In no order.
-- Indexes: the primary key of tools_tool, the unique one of tools_toolembedding over tenant, entity and slot.
SELECT sentence.place, NULL::uuid, tsvector_to_array(tools_question(sentence.text)), NULL::double precision[]
FROM unnest(%(sentences)s::text[]) WITH ORDINALITY AS sentence(text, place)
UNION ALL
SELECT NULL, tool.id, tsvector_to_array(ts_filter(tool.search_vector, '{a}')), (
    SELECT array_agg(-(embedding.vector <#> asked.vector) ORDER BY asked.place)
    FROM tools_toolembedding AS embedding
    CROSS JOIN unnest(%(vectors)s::vector[]) WITH ORDINALITY AS asked(vector, place)
    WHERE embedding.tenant_id = tool.tenant_id AND embedding.entity_id = tool.id AND embedding.slot = %(slot)s
        AND embedding.active AND embedding.status = 'ready')
FROM tools_tool AS tool WHERE tool.tenant_id = %(tenant_id)s AND tool.id = ANY (%(ids)s)
