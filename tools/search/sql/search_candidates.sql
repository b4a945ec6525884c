-- The candidates of one search, best first (tools/search/service.py). The newest *_candidates.sql says what the function does with
-- each parameter, and *_kind_<kind>.sql which filters and rights a kind knows.
--
-- In: query_vector is pgvector's text form, or NULL; filters and rights are JSON objects.
-- Out: the columns of tools.search.query.Candidate, in its order; `words` and `word_scores` become its field `words`. The time since the
-- last success counts by the hour, so that an answer does not change every moment. Index of the statistics: tool_statistics_once.
SELECT candidate.id, candidate.score, candidate.match_type, candidate.similarity, candidate.keyword_score, candidate.semantic_rank,
       candidate.keyword_rank, candidate.semantic_weight,
       coalesce(held.calls, 0), held.success_rate, held.average_latency_ms, held.quality,
       floor(extract(epoch FROM now() - held.last_succeeded_at)::double precision / 3600) / 24,
       candidate.is_named, candidate.words, candidate.word_scores
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
    semantic_share_max => %(semantic_share_max)s,
    with_words => %(with_words)s
) AS candidate
-- OFFSET 0, so that a candidate's row is looked up; as a join it would read the statistics of all tools.
LEFT JOIN LATERAL (
    SELECT * FROM metrics_toolstatistics AS own
    WHERE own.tenant_id = current_setting('portal.tenant')::uuid AND own.tool_id = candidate.id OFFSET 0
) AS held ON true
