-- The candidates of a search among one kind of entity, best first: the nearest vectors and the keyword matches of the current
-- tenant under the same filters, fused. docs/search.md gives the reasons and the figures.
--
-- In (what a parameter leaves out is its default; the service passes the numbers from the settings SEARCH_*):
--   kind                which entities: 'tool'. search_kind_<kind> gives their tables, and the condition of filters and rights
--   query_vector        norm 1, or NULL: keyword only
--   query_text          any text, or '': vectors only
--   max_results         rows wanted; each arm offers as many, at least least_depth. The order does not depend on it as long as it is
--                       no more than that
--   filters, rights     objects that search_kind_<kind> knows
--   fusion              'score': each arm's score by its best, weighted; 'rrf': weight / (rrf_k + rank), summed
--   rrf_k               k of 'rrf'
--   min_similarity      cosine under which nothing is near: 'score' divides by no smaller best
--   semantic_share      weight of the vectors, 0 to 1; the keyword arm has the rest. NULL: by the question, semantic_share_max
--                       when no word of the names of the best keyword matches occurs in it, down to semantic_share_min when
--                       all do (returned as applied_share)
--   with_words          return which of the question's lexemes each row has
--   vector_slot         slot of the model that made query_vector, 0 or 1
--   exact_limit         up to so many vectors are compared one by one; of more, their signatures are, and then the vectors of those
--                       that are about as near as the nearest
--   filtered_limit      up to so many entities that pass the filters are counted and looked at each; where more pass, the best are
--                       tested one after the other
--   postings_budget     so many postings are read at most, rarest lexemes first; the rarest is always read
--
-- Out: a row a candidate. similarity is the cosine, NULL without a vector; the ranks are NULL where that arm did not find it. is_named:
-- the question is its name, as the filter `names` of the kind understands names, and nothing else; these are among the rows
-- whatever their scores, and first. words and word_scores: its lexemes and their parts of keyword_score, NULL unless asked for.
--
-- Indexes of tools: tools_tool_facets and tools_tool_tags (filters), tools_tool_hidden (no filter), tools_toolembedding_signatures
-- (vectors and signs), tools_posting_once (keywords).
--
-- It runs as portal_search, which row-level security does not bind, since array operators do not get below a policy; the tenant
-- comes from the setting alone. The SQL is put together from constant pieces and quoted literals, so that every plan is made
-- for the actual filters and can prove the partial indexes.
CREATE FUNCTION search_candidates(
    kind text,
    query_vector vector,
    query_text text,
    max_results integer,
    filters jsonb DEFAULT '{}',
    rights jsonb DEFAULT '{}',
    fusion text DEFAULT 'score',
    semantic_share double precision DEFAULT NULL,
    vector_slot integer DEFAULT 0,
    exact_limit integer DEFAULT 2500,
    filtered_limit integer DEFAULT 10000,
    postings_budget integer DEFAULT 2500,
    rrf_k integer DEFAULT 60,
    min_similarity double precision DEFAULT 0.35,
    semantic_share_min double precision DEFAULT 0.25,
    semantic_share_max double precision DEFAULT 0.75,
    with_words boolean DEFAULT false
) RETURNS TABLE (
    id uuid,
    score double precision,
    match_type text,
    similarity double precision,
    keyword_score double precision,
    semantic_rank bigint,
    keyword_rank bigint,
    applied_share double precision,
    semantic_weight double precision,
    is_named boolean,
    words text[],
    word_scores real[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- What the method was tuned to (docs/search.md); what an installation may choose is a parameter.
    least_depth CONSTANT integer := 100;                    -- candidates that each arm offers, at least
    rarity_scale CONSTANT double precision := 10000;        -- rarity of a lexeme = ln(1 + rarity_scale / its frequency)
    nearest_rank CONSTANT integer := 20;                    -- as near as the so-manyth nearest signature, and `margin` beyond it,
    margin CONSTANT double precision := 0.08;               -- lie the vectors that are compared,
    least_compared CONSTANT integer := 200;                 -- at least so many of them,
    most_compared CONSTANT integer := 1000;                 -- and so many at most, unless more than those lie
    narrow_margin CONSTANT double precision := 0.05;        -- within this margin, as in a catalogue that is one cluster;
    most_in_cluster CONSTANT integer := 10000;              -- then so many
    longest_name CONSTANT integer := 200;                   -- characters; a longer question is no name
    named_matches CONSTANT integer := 5;                    -- keyword matches whose names decide the share of the vectors

    tenant CONSTANT uuid := current_setting('portal.tenant')::uuid;
    depth CONSTANT integer := greatest(least_depth, max_results);
    ready CONSTANT text := format(
        'embedding.tenant_id = %L AND embedding.slot = %s AND embedding.active AND embedding.status = ''ready''', tenant, vector_slot);
    of record;                  -- what search_kind_<kind> gives
    -- Pieces of SQL: what the id %s must be, to be counted or compared, and to be shown.
    eligible text := 'true';
    shown text := 'true';
    chosen uuid[] := '{}';      -- the ids that `eligible` lets pass (filtered) or keeps out (hidden)
    listed boolean := true;     -- whether `chosen` holds all of them
    few boolean;
    signatures text;            -- the query for the nearest $2 signatures
    alike uuid[];               -- the ids that it found
    distances double precision[];
    nearest uuid[] := '{}';
    similarities double precision[] := '{}';
    question CONSTANT tsvector := tools_question(query_text);
    terms text[] := '{}';       -- the question's lexemes that the budget reaches, with their rarities
    rarities double precision[] := '{}';
    named uuid[] := '{}';       -- what the question is the name of
    unnamed text;               -- the condition without the name
BEGIN
    EXECUTE format('SELECT * FROM %I($1, $2, $3)', 'search_kind_' || kind) INTO of USING filters, rights, vector_slot;

    -- Which entities the search is about, and whether they are few enough to look at each.
    IF of.filtered THEN
        EXECUTE format('SELECT coalesce(array_agg(passing.id), ''{}'') FROM (SELECT entity.id FROM %s AS entity WHERE %s LIMIT %s) AS passing',
                       of.entities, of.passes, filtered_limit + 1) INTO chosen;
        listed := cardinality(chosen) <= filtered_limit;
        IF listed THEN
            eligible := '%s IN (SELECT unnest($1))';
            shown := eligible;
        ELSE
            eligible := format('%%s IN (SELECT entity.id FROM %s AS entity WHERE %s)', of.entities, replace(of.passes, '%', '%%'));
            -- OFFSET 0 keeps the test a test: as a join it would read the whole catalogue before the first row.
            shown := format('EXISTS (SELECT FROM %s AS entity WHERE entity.id = %%s AND %s OFFSET 0)', of.entities, replace(of.passes, '%', '%%'));
        END IF;
    ELSE
        EXECUTE format('SELECT coalesce(array_agg(entity.id), ''{}'') FROM %s AS entity WHERE %s', of.entities, of.hidden) INTO chosen;
        IF cardinality(chosen) > 0 THEN
            eligible := '%s NOT IN (SELECT unnest($1))';
            shown := eligible;
        END IF;
    END IF;

    -- The semantic arm: of few the vectors, of many first the signatures, which are a sixth as much to read.
    IF query_vector IS NOT NULL THEN
        IF of.filtered AND listed THEN
            few := cardinality(chosen) <= exact_limit;
        ELSE
            EXECUTE format('SELECT count(*) <= %s FROM (SELECT FROM %s AS embedding WHERE %s LIMIT %s) AS counted',
                           exact_limit, of.embeddings, ready, exact_limit + 1) INTO few;
        END IF;
        IF NOT few THEN
            signatures := format($query$
                SELECT coalesce(array_agg(near.id), '{}'), coalesce(array_agg(near.distance), '{}') FROM (
                    SELECT embedding.entity_id AS id, embedding.signature <~> $3 AS distance
                    FROM %s AS embedding WHERE %s AND %s
                    ORDER BY distance, id LIMIT $2
                ) AS near $query$, of.embeddings, ready, format(eligible, 'embedding.entity_id'));
            EXECUTE signatures INTO alike, distances USING chosen, most_compared, search_signature(query_vector);
            IF distances[most_compared] <= distances[nearest_rank] * (1 + narrow_margin) THEN
                EXECUTE signatures INTO alike, distances USING chosen, most_in_cluster, search_signature(query_vector);
            END IF;
            -- Where there is no so-manyth, all are compared.
            alike := alike[:greatest(least_compared, coalesce(width_bucket(distances[nearest_rank] * (1 + margin), distances), cardinality(alike)))];
        END IF;
        EXECUTE format($query$
            SELECT coalesce(array_agg(near.id), '{}'), coalesce(array_agg(near.similarity), '{}') FROM (
                SELECT embedding.entity_id AS id, -(embedding.vector <#> $2) AS similarity
                FROM %s AS embedding WHERE %s AND %s
                ORDER BY similarity DESC, id LIMIT $3
            ) AS near $query$,
            of.embeddings, ready, CASE WHEN few THEN format(eligible, 'embedding.entity_id') ELSE 'embedding.entity_id = ANY ($4)' END)
        INTO nearest, similarities USING chosen, query_vector, depth, alike;
    END IF;

    -- The question's lexemes, rarest first, as far as the budget reaches. Their counts are taken from the postings
    -- themselves, so they are never stale; a count stops where it can no longer matter. Only entities that the search is about
    -- are counted, since a score would tell how many others, which the caller may not see, have the word.
    EXECUTE format($query$
        SELECT coalesce(array_agg(term.lexeme), '{}'), coalesce(array_agg(ln(1 + $3 / term.frequency)), '{}')
        FROM (
            SELECT counted.lexeme, counted.frequency, row_number() OVER rarest_first AS place,
                   sum(CASE WHEN $5 THEN least(counted.frequency, cardinality($1)) ELSE counted.frequency END)
                       OVER rarest_first AS postings
            FROM (
                SELECT word.lexeme, (
                    SELECT CASE WHEN count(*) > $4 THEN count(*) ELSE count(*) FILTER (WHERE %3$s) END FROM (
                        SELECT posting.entity_id FROM %2$s AS posting
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
        tenant, of.postings, CASE WHEN listed THEN format(eligible, 'posting.entity_id') ELSE 'true' END)
    INTO terms, rarities USING chosen, question, rarity_scale, postings_budget, of.filtered AND listed;

    IF length(query_text) <= longest_name AND (NOT filters ? 'names' OR filters -> 'names' ? query_text) THEN
        unnamed := of.passes;
        EXECUTE format('SELECT * FROM %I($1, $2, $3)', 'search_kind_' || kind) INTO of
        USING filters || jsonb_build_object('names', jsonb_build_array(query_text)), rights, vector_slot;
        IF of.passes <> unnamed THEN  -- a kind that passes over the filter `names` has no names
            EXECUTE format('SELECT coalesce(array_agg(equal.id), ''{}'') FROM (SELECT entity.id FROM %s AS entity WHERE %s LIMIT %s) AS equal',
                           of.entities, of.passes, max_results) INTO named;
        END IF;
    END IF;

    -- The keyword arm, and the fusion. Each arm's score is also looked up for what only the other arm found; an entity
    -- without a vector is taken for as similar as the candidates are on average.
    RETURN QUERY EXECUTE format($query$
        WITH matched AS MATERIALIZED (
            SELECT posting.entity_id AS id, sum(posting.weight * term.rarity) AS score, %9$s
            FROM unnest($2, $3) AS term(lexeme, rarity)
            JOIN %3$s AS posting ON posting.tenant_id = %4$L AND posting.lexeme = term.lexeme
            WHERE %6$s
            GROUP BY posting.entity_id
        ), keyword AS (
            SELECT best.id, row_number() OVER (ORDER BY best.score DESC, best.id) AS rank
            FROM (
                SELECT ranked.id, ranked.score FROM (SELECT * FROM matched ORDER BY score DESC, id) AS ranked WHERE %7$s LIMIT $7
            ) AS best
        ), semantic AS (
            SELECT near.id, near.similarity, near.rank FROM unnest($4, $5) WITH ORDINALITY AS near(id, similarity, rank)
        ), found AS (
            SELECT coalesce(semantic.id, keyword.id, equal.id) AS id, semantic.rank AS semantic_rank, keyword.rank AS keyword_rank, semantic.similarity
            FROM semantic FULL JOIN keyword ON keyword.id = semantic.id
            FULL JOIN unnest($17) AS equal(id) ON equal.id = coalesce(semantic.id, keyword.id)
        ), candidate AS MATERIALIZED (
            SELECT found.id, found.semantic_rank, found.keyword_rank, coalesce(matched.score, 0) AS keyword_score,
                   matched.words, matched.word_scores, found.id = ANY ($17) AS is_named,
                   coalesce(found.similarity, (
                       SELECT -(embedding.vector <#> $6) FROM %2$s AS embedding
                       WHERE $6 IS NOT NULL AND embedding.entity_id = found.id AND %5$s)) AS similarity
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
            FROM keyword JOIN %1$s AS entity ON entity.id = keyword.id
            CROSS JOIN LATERAL (SELECT ts_filter(entity.search_vector, '{a}') AS lexemes) AS name
            WHERE keyword.rank <= $16
        )
        SELECT fused.id, fused.score,
               CASE WHEN fused.semantic_rank IS NULL THEN 'keyword' WHEN fused.keyword_rank IS NULL THEN 'semantic' ELSE 'both' END,
               fused.similarity, fused.keyword_score, fused.semantic_rank, fused.keyword_rank, fused.share, shown.weight,
               fused.is_named, fused.words, fused.word_scores
        FROM (
            SELECT candidate.*, share,
                   coalesce(CASE WHEN $8 = 'rrf' THEN coalesce(share / ($13 + candidate.semantic_rank), 0) + coalesce((1 - share) / ($13 + candidate.keyword_rank), 0)
                        WHEN best.similarity IS NULL THEN candidate.keyword_score / best.keyword_score
                        WHEN best.keyword_score IS NULL THEN candidate.similarity / best.similarity
                        ELSE share * coalesce(candidate.similarity, best.mean_similarity) / best.similarity
                             + (1 - share) * candidate.keyword_score / best.keyword_score
                   END, 0) AS score
            FROM candidate CROSS JOIN best CROSS JOIN trust
            ORDER BY candidate.is_named DESC, score DESC NULLS LAST, candidate.id LIMIT $10
        ) AS fused
        -- By its id, and not as a join over the whole table; a posting without its entity ends here.
        CROSS JOIN LATERAL (SELECT %8$s AS weight FROM %1$s AS entity WHERE entity.id = fused.id OFFSET 0) AS shown
        ORDER BY fused.is_named DESC, fused.score DESC NULLS LAST, fused.id $query$,
        of.entities, of.embeddings, of.postings, tenant, ready,
        CASE WHEN listed THEN format(eligible, 'posting.entity_id') ELSE 'true' END,
        CASE WHEN listed THEN 'true' ELSE format(shown, 'ranked.id') END, of.operators_weight,
        CASE WHEN with_words THEN 'array_agg(term.lexeme) AS words, array_agg((posting.weight * term.rarity)::real) AS word_scores'
             ELSE 'NULL::text[] AS words, NULL::real[] AS word_scores' END)
    --    $1      $2     $3        $4       $5            $6            $7     $8      $9              $10          $11
    USING chosen, terms, rarities, nearest, similarities, query_vector, depth, fusion, semantic_share, max_results, tsvector_to_array(question),
    --    $12             $13    $14                 $15                 $16            $17
          min_similarity, rrf_k, semantic_share_min, semantic_share_max, named_matches, named;
END;
$$;
