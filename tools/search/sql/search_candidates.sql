-- The candidates of one search, best first (tools/search/service.py). The newest *_candidates.sql says what the function does with
-- each parameter, and *_kind_<kind>.sql which filters and rights a kind knows.
--
-- In: query_vector is pgvector's text form, or NULL; filters and rights are JSON objects.
-- Out: the columns of tools.search.query.Candidate, in its order.
SELECT id, score, match_type, similarity, keyword_score, semantic_rank, keyword_rank, semantic_weight
FROM search_candidates(
    kind => %(kind)s,
    query_vector => %(query_vector)s::vector,
    query_text => %(query_text)s,
    max_results => %(max_results)s,
    filters => %(filters)s::jsonb,
    rights => %(rights)s::jsonb,
    fusion => %(fusion)s,
    vector_slot => %(vector_slot)s,
    exact_limit => %(exact_limit)s,
    filtered_limit => %(filtered_limit)s,
    postings_budget => %(postings_budget)s,
    rrf_k => %(rrf_k)s,
    min_similarity => %(min_similarity)s,
    semantic_share_min => %(semantic_share_min)s,
    semantic_share_max => %(semantic_share_max)s
)
