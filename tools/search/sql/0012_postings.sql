-- The BM25F weight of each lexeme of a tool, which tools_posting keeps beside it; the search function multiplies it by the
-- rarity, from live counts. In: a tool's search_vector. Out: a row a lexeme.
--
--     tf     = name_weight * occurrences in the name + description_weight * in the description + rest_weight * in the rest
--     length = the same sum over all lexemes of the tool
--     weight = tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean_length))
--
-- mean_length stands for the mean over the tenant's tools, which BM25 would have to keep true; docs/search.md shows that a
-- constant costs nothing. These are no settings: a change needs every stored posting computed anew, which is a migration.
CREATE OR REPLACE FUNCTION tools_posting_weights(document tsvector) RETURNS TABLE (lexeme text, weight real)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH bm25f (k1, b, mean_length, name_weight, description_weight, rest_weight) AS (VALUES (1.2, 0.75, 25, 3.0, 1.0, 0.5))
    SELECT term.lexeme, (term.tf * (k1 + 1) / (term.tf + k1 * (1 - b + b * sum(term.tf) OVER () / mean_length)))::real
    FROM bm25f CROSS JOIN LATERAL (
        SELECT entry.lexeme,
               (SELECT sum(CASE label WHEN 'A' THEN name_weight WHEN 'B' THEN description_weight ELSE rest_weight END)
                FROM unnest(entry.weights) AS label) AS tf
        FROM unnest(document) AS entry
    ) AS term;
END;
