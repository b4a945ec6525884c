-- The function that processes of the version before this migration call until they are started again. To be dropped once none of
-- them can run.
CREATE OR REPLACE FUNCTION tools_search_candidates(
    query_vector vector,
    query_text text,
    max_results integer,
    fusion text DEFAULT 'score',
    semantic_share double precision DEFAULT NULL,
    vector_slot integer DEFAULT 0,
    tool_types text[] DEFAULT NULL,
    categories text[] DEFAULT NULL,
    all_tags text[] DEFAULT NULL,
    source_protocols text[] DEFAULT NULL,
    source_ids uuid[] DEFAULT NULL,
    routing_domains text[] DEFAULT NULL,
    namespaces text[] DEFAULT NULL,
    sensitivities text[] DEFAULT NULL,
    only_names text[] DEFAULT NULL,
    except_names text[] DEFAULT NULL,
    exact_limit integer DEFAULT 10000,
    postings_budget integer DEFAULT 2500,
    rrf_k integer DEFAULT 60,
    min_similarity double precision DEFAULT 0.35,
    semantic_share_min double precision DEFAULT 0.25,
    semantic_share_max double precision DEFAULT 0.75
) RETURNS TABLE (
    id uuid,
    score double precision,
    match_type text,
    similarity double precision,
    keyword_score double precision,
    semantic_rank bigint,
    keyword_rank bigint,
    applied_share double precision,
    semantic_weight double precision
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT id, score, match_type, similarity, keyword_score, semantic_rank, keyword_rank, applied_share, semantic_weight
    FROM search_candidates(
        'tool', query_vector, query_text, max_results,
        jsonb_strip_nulls(jsonb_build_object(
            'tool_type', to_jsonb(tool_types), 'category', to_jsonb(categories),
            'tags', (SELECT jsonb_agg(jsonb_build_array(tag)) FROM unnest(all_tags) AS tag),
            'source_protocol', to_jsonb(source_protocols), 'source', to_jsonb(source_ids), 'routing_domain', to_jsonb(routing_domains),
            'namespace', to_jsonb(namespaces), 'sensitivity', to_jsonb(sensitivities),
            'names', to_jsonb(only_names), 'exclude', to_jsonb(except_names))),
        '{}', fusion, semantic_share, vector_slot,
        postings_budget => postings_budget, rrf_k => rrf_k, min_similarity => min_similarity,
        semantic_share_min => semantic_share_min, semantic_share_max => semantic_share_max)
$$;
