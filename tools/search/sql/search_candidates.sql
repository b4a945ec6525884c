-- The candidates of one search, best first (tools/search/service.py). 0017_candidates.sql says what the function does with each
-- parameter, and which indexes serve it.
--
-- In: query_vector is pgvector's text form, or NULL; source holds ids, not slugs; a filter that is not asked for is NULL.
-- Out: the columns of tools.search.query.Candidate, in its order.
SELECT id, score, match_type, similarity, keyword_score, semantic_rank, keyword_rank, semantic_weight
FROM tools_search_candidates(
    query_vector => %(query_vector)s::vector,
    query_text => %(query_text)s,
    max_results => %(max_results)s,
    fusion => %(fusion)s,
    vector_slot => %(vector_slot)s,
    exact_limit => %(exact_limit)s,
    postings_budget => %(postings_budget)s,
    rrf_k => %(rrf_k)s,
    min_similarity => %(min_similarity)s,
    semantic_share_min => %(semantic_share_min)s,
    semantic_share_max => %(semantic_share_max)s,
    namespaces => %(namespace)s::text[],
    tool_types => %(tool_type)s::text[],
    categories => %(category)s::text[],
    all_tags => %(tags)s::text[],
    source_protocols => %(source_protocol)s::text[],
    source_ids => %(source)s::uuid[],
    routing_domains => %(routing_domain)s::text[],
    sensitivities => %(sensitivity)s::text[],
    only_names => %(names)s::text[],
    except_names => %(exclude)s::text[]
)
