-- The candidates of a search, best first: the nearest vectors and the keyword matches of the current tenant under the same
-- filters, fused. docs/search.md gives the reasons and the figures.
--
-- In (what a parameter leaves out is its default; the service passes the numbers from the settings SEARCH_*):
--   query_vector        norm 1, or NULL: keyword only
--   query_text          any text, or '': vectors only
--   max_results         rows wanted; each arm offers depth_per_result as many, at least least_depth
--   fusion              'score': each arm's score by its best, weighted; 'rrf': weight / (rrf_k + rank), summed
--   rrf_k               k of 'rrf'
--   min_similarity      cosine under which nothing is near: 'score' divides by no smaller best
--   semantic_share      weight of the vectors, 0 to 1; the keyword arm has the rest. NULL: by the question, semantic_share_max
--                       when no word of the names of the best keyword matches occurs in it, down to semantic_share_min when
--                       all do (returned as applied_share)
--   vector_slot         slot of the model that made query_vector, 0 or 1
--   filters             tool_types to except_names. NULL: none. An empty array lets nothing pass, except all_tags and
--                       except_names. Names are tool_id or name
--   exact_limit         up to so many rows the vectors are compared one by one, beyond it through the HNSW index; a tenant that
--                       owns at least 1/hnsw_part of that index is asked through it from exact_limit/hnsw_part on
--   postings_budget     so many postings are read at most, rarest lexemes first; the rarest is always read
--
-- Out: a row a candidate. similarity is the cosine, NULL without a vector; the ranks are NULL where that arm did not find it.
--
-- Indexes: tools_tool_facets and tools_tool_tags (filters), tools_tool_hidden (no filter), tools_toolembedding_ready (exact
-- vectors), tools_toolembedding_hnsw_0 and _1 (beyond exact_limit), tools_posting_once (keywords).
--
-- It runs as portal_search, which row-level security does not bind, since neither array operators nor an ordered HNSW scan
-- get below a policy; the tenant comes from the setting alone. The SQL is put together from constant pieces and quoted
-- literals, so that every plan is made for the actual filters and can prove the partial indexes.
CREATE FUNCTION tools_search_candidates(
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
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
SET hnsw.ef_search = 100
SET hnsw.iterative_scan = relaxed_order
AS $$
#variable_conflict use_column
DECLARE
    -- What the method was tuned to (docs/search.md); what an installation may choose is a parameter.
    least_depth CONSTANT integer := 100;                    -- candidates that each arm offers, at least
    depth_per_result CONSTANT integer := 2;                 -- and for each row wanted
    rarity_scale CONSTANT double precision := 10000;        -- rarity of a lexeme = ln(1 + rarity_scale / its frequency)
    named_matches CONSTANT integer := 5;                    -- keyword matches whose names decide the share of the vectors
    hnsw_part CONSTANT integer := 4;                        -- see exact_limit

    tenant CONSTANT uuid := current_setting('portal.tenant')::uuid;
    depth CONSTANT integer := greatest(least_depth, depth_per_result * max_results);
    filtered CONSTANT boolean := num_nonnulls(tool_types, categories, all_tags, source_protocols, source_ids, routing_domains,
                                              namespaces, sensitivities, only_names, except_names) > 0;
    -- Pieces of SQL: what a row `tool` of tools_tool must be, what a row `embedding` must be, and what the id %s must be.
    passes text;
    ready CONSTANT text := format(
        'embedding.tenant_id = %L AND embedding.slot = %s AND embedding.active AND embedding.status = ''ready''', tenant, vector_slot);
    eligible text := 'true';
    chosen uuid[] := '{}';      -- the ids that `eligible` lets pass (filtered) or keeps out (hidden tools)
    compared integer;           -- so many vectors are compared one by one, where nothing is filtered
    exact boolean := true;
    nearest uuid[] := '{}';
    similarities double precision[] := '{}';
    question CONSTANT tsvector := to_tsvector('pg_catalog.english', tools_words(query_text));
    terms text[] := '{}';       -- the question's lexemes that the budget reaches, with their rarities
    rarities double precision[] := '{}';
BEGIN
    passes := format('tool.tenant_id = %L AND tool.active AND tool.visibility = ''public'' AND tool.lifecycle <> ''retired''', tenant)
        || CASE WHEN tool_types IS NULL THEN '' ELSE format(' AND tool.tool_type = ANY (%L)', tool_types) END
        || CASE WHEN categories IS NULL THEN '' ELSE format(' AND tool.category = ANY (%L)', categories) END
        || CASE WHEN all_tags IS NULL THEN '' ELSE format(' AND tool.tags @> %L', all_tags) END
        || CASE WHEN source_protocols IS NULL THEN '' ELSE format(' AND tool.source_protocol = ANY (%L)', source_protocols) END
        || CASE WHEN source_ids IS NULL THEN '' ELSE format(' AND tool.source_id = ANY (%L)', source_ids) END
        || CASE WHEN routing_domains IS NULL THEN '' ELSE format(' AND tool.routing_domain = ANY (%L)', routing_domains) END
        || CASE WHEN namespaces IS NULL THEN '' ELSE format(' AND tool.namespace = ANY (%L)', namespaces) END
        || CASE WHEN sensitivities IS NULL THEN '' ELSE format(' AND tool.sensitivity = ANY (%L)', sensitivities) END
        || CASE WHEN only_names IS NULL THEN '' ELSE format(' AND (tool.tool_id = ANY (%1$L) OR tool.name = ANY (%1$L))', only_names) END
        || CASE WHEN except_names IS NULL THEN '' ELSE format(' AND NOT (tool.tool_id = ANY (%1$L) OR tool.name = ANY (%1$L))', except_names) END;

    -- Which tools the search is about, and whether they are few enough to look at each.
    IF filtered THEN
        EXECUTE format('SELECT coalesce(array_agg(passing.id), ''{}'') FROM (SELECT tool.id FROM tools_tool AS tool WHERE %s LIMIT %s) AS passing',
                       passes, exact_limit + 1) INTO chosen;
        exact := cardinality(chosen) <= exact_limit;
        -- OFFSET 0 keeps the test a test: as a join it would read the whole catalogue before the first row.
        eligible := CASE WHEN exact THEN '%s IN (SELECT unnest($1))'
                         ELSE 'EXISTS (SELECT FROM tools_tool AS tool WHERE tool.id = %s AND ' || replace(passes, '%', '%%') || ' OFFSET 0)' END;
    ELSE
        SELECT coalesce(array_agg(tool.id), '{}') INTO chosen FROM tools_tool AS tool
        WHERE tool.tenant_id = tenant AND tool.active AND (tool.visibility <> 'public' OR tool.lifecycle = 'retired');
        IF cardinality(chosen) > 0 THEN
            eligible := '%s NOT IN (SELECT unnest($1))';
        END IF;
        IF query_vector IS NOT NULL THEN
            -- The index is shared: the smaller a tenant's part, the more of it is visited in vain and the more is missed.
            SELECT greatest(exact_limit / hnsw_part, least(exact_limit, ceil(index.reltuples / hnsw_part) - 1)) INTO compared
            FROM pg_class AS index
            WHERE index.oid = to_regclass(format('public.tools_toolembedding_hnsw_%s', vector_slot)) AND index.reltuples > 0;
            compared := coalesce(compared, exact_limit);
            EXECUTE format('SELECT count(*) <= %s FROM (SELECT FROM tools_toolembedding AS embedding WHERE %s LIMIT %s) AS counted',
                           compared, ready, compared + 1) INTO exact;
        END IF;
    END IF;

    -- The semantic arm. Exact: the order by the negated product is none that the HNSW index offers, which orders by halves.
    IF query_vector IS NOT NULL AND exact THEN
        EXECUTE format($query$
            SELECT coalesce(array_agg(near.id), '{}'), coalesce(array_agg(near.similarity), '{}') FROM (
                SELECT embedding.entity_id AS id, -(embedding.vector <#> $2) AS similarity
                FROM tools_toolembedding AS embedding WHERE %s AND %s
                ORDER BY similarity DESC, id LIMIT $3
            ) AS near $query$, ready, format(eligible, 'embedding.entity_id'))
        INTO nearest, similarities USING chosen, query_vector, depth;
    ELSIF query_vector IS NOT NULL THEN
        EXECUTE format($query$
            WITH near AS MATERIALIZED (
                SELECT embedding.entity_id AS id, -(embedding.vector <#> $2) AS similarity
                FROM tools_toolembedding AS embedding WHERE %s AND %s
                ORDER BY embedding.vector::halfvec(384) <#> $2::halfvec(384) LIMIT $3
            )
            SELECT coalesce(array_agg(near.id), '{}'), coalesce(array_agg(near.similarity), '{}')
            FROM (SELECT * FROM near ORDER BY near.similarity DESC, near.id) AS near $query$, ready, format(eligible, 'embedding.entity_id'))
        INTO nearest, similarities USING chosen, query_vector, depth;
    END IF;

    -- The question's lexemes, rarest first, as far as the budget reaches. Their counts are taken from the postings
    -- themselves, so they are never stale; a count stops where it can no longer matter. Only tools that the search is about
    -- are counted, since a score would tell how many others, which the caller may not see, have the word.
    EXECUTE format($query$
        SELECT coalesce(array_agg(term.lexeme), '{}'), coalesce(array_agg(ln(1 + $3 / term.frequency)), '{}')
        FROM (
            SELECT counted.lexeme, counted.frequency, row_number() OVER rarest_first AS place,
                   sum(CASE WHEN $5 THEN least(counted.frequency, cardinality($1)) ELSE counted.frequency END)
                       OVER rarest_first AS postings
            FROM (
                SELECT word.lexeme, (
                    SELECT CASE WHEN count(*) > $4 THEN count(*) ELSE count(*) FILTER (WHERE %2$s) END FROM (
                        SELECT posting.tool_id FROM tools_posting AS posting
                        WHERE posting.tenant_id = %1$L AND posting.lexeme = word.lexeme LIMIT $4 + 1
                    ) AS posting
                ) AS frequency
                FROM unnest($2) AS word
                OFFSET 0  -- so that the count is taken once and not wherever it is named
            ) AS counted
            WHERE counted.frequency > 0
            WINDOW rarest_first AS (ORDER BY counted.frequency, counted.lexeme)
        ) AS term
        WHERE term.place = 1 OR term.postings <= $4 $query$,
        tenant, CASE WHEN filtered AND NOT exact THEN 'true' ELSE format(eligible, 'posting.tool_id') END)
    INTO terms, rarities USING chosen, question, rarity_scale, postings_budget, filtered AND exact;

    -- The keyword arm, and the fusion. Each arm's score is also looked up for what only the other arm found; a tool
    -- without a vector is taken for as similar as the candidates are on average.
    RETURN QUERY EXECUTE format($query$
        WITH matched AS MATERIALIZED (
            SELECT posting.tool_id AS id, sum(posting.weight * term.rarity) AS score
            FROM unnest($2, $3) AS term(lexeme, rarity)
            JOIN tools_posting AS posting ON posting.tenant_id = %1$L AND posting.lexeme = term.lexeme
            WHERE %2$s
            GROUP BY posting.tool_id
        ), keyword AS (
            SELECT best.id, row_number() OVER (ORDER BY best.score DESC, best.id) AS rank
            FROM (
                SELECT ranked.id, ranked.score FROM (SELECT * FROM matched ORDER BY score DESC, id) AS ranked WHERE %3$s LIMIT $7
            ) AS best
        ), semantic AS (
            SELECT near.id, near.similarity, near.rank FROM unnest($4, $5) WITH ORDINALITY AS near(id, similarity, rank)
        ), found AS (
            SELECT coalesce(semantic.id, keyword.id) AS id, semantic.rank AS semantic_rank, keyword.rank AS keyword_rank, semantic.similarity
            FROM semantic FULL JOIN keyword ON keyword.id = semantic.id
        ), candidate AS MATERIALIZED (
            SELECT found.id, found.semantic_rank, found.keyword_rank, coalesce(matched.score, 0) AS keyword_score,
                   coalesce(found.similarity, (
                       SELECT -(embedding.vector <#> $6) FROM tools_toolembedding AS embedding
                       WHERE $6 IS NOT NULL AND embedding.entity_id = found.id AND %4$s)) AS similarity
            FROM found LEFT JOIN matched ON matched.id = found.id
        ), best AS (
            -- No arm is stretched beyond what it found: a best cosine under min_similarity means that nothing is near (SRC-9).
            SELECT CASE WHEN max(similarity) IS NOT NULL THEN greatest(max(similarity), $12) END AS similarity,
                   avg(similarity) AS mean_similarity,
                   nullif(max(keyword_score), 0) AS keyword_score
            FROM candidate
        ), trust AS (
            -- A question that spells out the names of its matches is better served by words, any other by meaning.
            SELECT coalesce($9, $15 - ($15 - $14) * avg(1 - length(ts_delete(name.lexemes, $11))::double precision / nullif(length(name.lexemes), 0)), $15)
                   AS share
            FROM keyword JOIN tools_tool AS tool ON tool.id = keyword.id
            CROSS JOIN LATERAL (SELECT ts_filter(tool.search_vector, '{a}') AS lexemes) AS name
            WHERE keyword.rank <= $16
        )
        SELECT fused.id, fused.score,
               CASE WHEN fused.keyword_rank IS NULL THEN 'semantic' WHEN fused.semantic_rank IS NULL THEN 'keyword' ELSE 'both' END,
               fused.similarity, fused.keyword_score, fused.semantic_rank, fused.keyword_rank, fused.share, shown.semantic_weight
        FROM (
            SELECT candidate.*, share,
                   CASE WHEN $8 = 'rrf' THEN coalesce(share / ($13 + candidate.semantic_rank), 0) + coalesce((1 - share) / ($13 + candidate.keyword_rank), 0)
                        WHEN best.similarity IS NULL THEN candidate.keyword_score / best.keyword_score
                        WHEN best.keyword_score IS NULL THEN candidate.similarity / best.similarity
                        ELSE share * coalesce(candidate.similarity, best.mean_similarity) / best.similarity
                             + (1 - share) * candidate.keyword_score / best.keyword_score
                   END AS score
            FROM candidate CROSS JOIN best CROSS JOIN trust
            ORDER BY score DESC NULLS LAST, candidate.id LIMIT $10
        ) AS fused
        -- By its id, and not as a join over the whole catalogue; a posting without its tool ends here.
        CROSS JOIN LATERAL (SELECT tool.semantic_weight FROM tools_tool AS tool WHERE tool.id = fused.id OFFSET 0) AS shown
        ORDER BY fused.score DESC NULLS LAST, fused.id $query$,
        tenant, CASE WHEN exact THEN format(eligible, 'posting.tool_id') ELSE 'true' END,
        CASE WHEN exact THEN 'true' ELSE format(eligible, 'ranked.id') END, ready)
    --    $1      $2     $3        $4       $5            $6            $7     $8      $9              $10          $11
    USING chosen, terms, rarities, nearest, similarities, query_vector, depth, fusion, semantic_share, max_results, tsvector_to_array(question),
    --    $12             $13    $14                 $15                 $16
          min_similarity, rrf_k, semantic_share_min, semantic_share_max, named_matches;
END;
$$;
