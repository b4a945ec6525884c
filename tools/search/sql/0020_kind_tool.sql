-- What search_candidates must know of tools. Another kind of entity has a function of its own, search_kind_<kind>, with the same
-- parameters; tools/search/kinds.py says what else it needs.
--
-- In:
--   filters        SRC-2, as an object; what it leaves out filters nothing, and an unknown name is an error. An empty array lets
--                  nothing pass, except of tags and exclude
--     namespace, tool_type, category, source_protocol, routing_domain, semantic_namespace, sensitivity, lifecycle,
--     embedding_status              texts, any of which a tool must have
--     source                        ids, any of which a tool must have
--     tags                          arrays of texts: a tool must have a text of each
--     language, personas            texts, any of which must be among the tags and the target personas
--     parameter                     texts, any of which must be the name of a parameter
--     names, exclude                texts that must, or must not, be the tool_id or the name
--     core                          true or false
--     max_average_latency_ms, min_success_rate, min_quality         numbers, by metrics_toolstatistics. A tool of which the figure is
--                                   not known passes, unless `measured`
--     measured                      true: only tools that were called, and of which the figures are known that are asked for
--   rights         what the caller may see (Rights of portal/tenancy/rights.py, as tools.models.tool.found_by says them)
--     private        true: every private tool
--     owner          a text: the private tools of this owner
--     sensitivities  texts: of these sensitivities alone
--   vector_slot    the slot that serves, for embedding_status
--
-- Out: the three tables; a condition for what search shows of a row `entity`; one for the rows that it hides although no filter does,
-- which an index must find at once; whether more than they are kept out; the factor that an operator has set.
--
-- A quarantined tool is found by nobody (QLT-6).
-- A retired tool is found only by who asks for retired ones. An unlisted one is found by nobody: it is opened by its id (CAT-1).
CREATE FUNCTION search_kind_tool(
    filters jsonb, rights jsonb, vector_slot integer,
    OUT entities regclass, OUT embeddings regclass, OUT postings regclass,
    OUT passes text, OUT hidden text, OUT filtered boolean, OUT operators_weight text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    tenant CONSTANT uuid := current_setting('portal.tenant')::uuid;
    kept_back CONSTANT text := 'entity.visibility <> ''public'' OR entity.lifecycle = ''retired''';  -- as tools_tool_hidden has it
    visible text := 'entity.visibility = ''public''';
    -- By tool_statistics_quarantined; they are few, and mostly none.
    quarantined CONSTANT uuid[] := ARRAY(SELECT held.tool_id FROM metrics_toolstatistics AS held
                                         WHERE held.tenant_id = tenant AND held.quarantined_until > now());
    measured CONSTANT boolean := coalesce(filters -> 'measured' = 'true', false);
    suits text := '';           -- what the statistics must be
    name text;
    given jsonb;
    kind_of_value text;
    texts text[];
    one jsonb;
BEGIN
    entities := 'public.tools_tool';
    embeddings := 'public.tools_toolembedding';
    postings := 'public.tools_posting';
    operators_weight := 'entity.semantic_weight';
    filtered := filters <> '{}' OR rights ? 'sensitivities';

    IF rights -> 'private' = 'true' THEN
        visible := 'entity.visibility IN (''public'', ''private'')';
    ELSIF rights ->> 'owner' <> '' THEN
        -- Their ids, because tools_tool_facets does not hold the owner of each tool of the tenant.
        visible := format('(%s OR entity.id IN (SELECT mine.id FROM tools_tool AS mine WHERE mine.tenant_id = %L AND mine.active '
                          'AND mine.visibility <> ''public'' AND mine.visibility = ''private'' AND mine.owner = %L))',
                          visible, tenant, rights ->> 'owner');
    END IF;
    passes := format('entity.tenant_id = %L AND entity.active AND %s', tenant, visible);
    IF NOT filters ? 'lifecycle' THEN
        passes := passes || ' AND entity.lifecycle <> ''retired''';
    END IF;
    IF cardinality(quarantined) > 0 THEN
        passes := passes || format(' AND entity.id <> ALL (%L)', quarantined);
        hidden := format('entity.tenant_id = %L AND entity.active AND (%s OR entity.id = ANY (%L)) AND NOT (%s)',
                         tenant, kept_back, quarantined, passes);
    ELSE
        hidden := format('entity.tenant_id = %L AND entity.active AND (%s) AND NOT (%s)', tenant, kept_back, passes);
    END IF;

    IF rights ? 'sensitivities' THEN
        passes := passes || format(' AND entity.sensitivity = ANY (%L)',
                                   ARRAY(SELECT jsonb_array_elements_text(rights -> 'sensitivities')));
    END IF;
    FOR name, given IN SELECT * FROM jsonb_each(filters) LOOP
        kind_of_value := CASE WHEN name IN ('core', 'measured') THEN 'boolean'
                              WHEN name IN ('max_average_latency_ms', 'min_success_rate', 'min_quality') THEN 'number' ELSE 'array' END;
        IF jsonb_typeof(given) <> kind_of_value THEN
            RAISE EXCEPTION 'the filter % of a search must be of the type %', name, kind_of_value USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF kind_of_value = 'array' AND name <> 'tags' THEN
            texts := ARRAY(SELECT jsonb_array_elements_text(given));
        END IF;
        CASE
        WHEN name IN ('namespace', 'tool_type', 'category', 'source_protocol', 'routing_domain', 'semantic_namespace', 'sensitivity',
                      'lifecycle') THEN
            passes := passes || format(' AND entity.%I = ANY (%L)', name, texts);
        WHEN name = 'source' THEN
            passes := passes || format(' AND entity.source_id = ANY (%L)', texts);
        WHEN name = 'tags' THEN
            FOR one IN SELECT * FROM jsonb_array_elements(given) LOOP
                passes := passes || format(' AND entity.tags && %L', ARRAY(SELECT jsonb_array_elements_text(one)));
            END LOOP;
        WHEN name = 'language' THEN
            passes := passes || format(' AND entity.tags && %L', texts);
        WHEN name = 'personas' THEN
            passes := passes || format(' AND entity.target_personas && %L', texts);
        WHEN name = 'parameter' THEN
            passes := passes || format(' AND entity.parameters -> ''properties'' ?| %L', texts);
        WHEN name = 'core' THEN
            passes := passes || CASE WHEN given::boolean THEN ' AND entity.core' ELSE ' AND NOT entity.core' END;
        WHEN name = 'max_average_latency_ms' THEN
            suits := suits || format(' AND held.average_latency_ms <= %L', given::double precision);
        WHEN name = 'min_success_rate' THEN
            suits := suits || format(' AND held.success_rate >= %L', given::double precision);
        WHEN name = 'min_quality' THEN
            suits := suits || format(' AND held.quality >= %L', given::double precision);
        WHEN name = 'measured' THEN
            NULL;  -- below
        WHEN name = 'embedding_status' THEN
            passes := passes || format(' AND EXISTS (SELECT FROM tools_toolembedding AS held WHERE held.tenant_id = %L AND held.entity_id = entity.id '
                                       'AND held.slot = %s AND held.status = ANY (%L))', tenant, vector_slot, texts);
        WHEN name = 'names' THEN
            passes := passes || format(' AND (entity.tool_id = ANY (%1$L) OR entity.name = ANY (%1$L))', texts);
        WHEN name = 'exclude' THEN
            passes := passes || format(' AND NOT (entity.tool_id = ANY (%1$L) OR entity.name = ANY (%1$L))', texts);
        ELSE
            RAISE EXCEPTION 'a search of tools has no filter %', name USING ERRCODE = 'invalid_parameter_value';
        END CASE;
    END LOOP;
    IF measured OR suits <> '' THEN
        -- A comparison with a figure that is not known is neither true nor false: so an unmeasured tool passes the second of these.
        passes := passes || format(CASE WHEN measured THEN ' AND EXISTS (%s%s)' ELSE ' AND NOT EXISTS (%s AND NOT (true%s))' END, format(
            'SELECT FROM metrics_toolstatistics AS held WHERE held.tenant_id = %L AND held.tool_id = entity.id AND held.calls > 0', tenant), suits);
    END IF;
END;
$$;
