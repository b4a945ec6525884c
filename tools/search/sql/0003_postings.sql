-- The keyword index: one row a lexeme and active tool in tools_posting, written by a row trigger from the tool's generated
-- search_vector. `weight` is the BM25F term weight without the rarity, which the search function adds from live counts:
--
--     tf     = 3 * occurrences in the name + 1 * in the description + 0.5 * in the rest (labels A, B, C)
--     length = the same sum over all lexemes of the tool
--     weight = tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / 25)),  k1 = 1.2, b = 0.75
--
-- 25 stands for the mean length, which BM25 would have to keep true for each tenant; docs/search.md shows that it costs nothing.
CREATE FUNCTION tools_posting_weights(document tsvector) RETURNS TABLE (lexeme text, weight real)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT term.lexeme, (term.tf * 2.2 / (term.tf + 1.2 * (0.25 + 0.75 * sum(term.tf) OVER () / 25)))::real
    FROM (
        SELECT entry.lexeme,
               (SELECT sum(CASE label WHEN 'A' THEN 3.0 WHEN 'B' THEN 1.0 ELSE 0.5 END) FROM unnest(entry.weights) AS label) AS tf
        FROM unnest(document) AS entry
    ) AS term;
END;

-- A tool's postings are only ever touched under the lock of the tool's own row, so writers of different tools cannot
-- deadlock here. The rows to delete are found by the old lexemes, which spares an index by tool.
CREATE FUNCTION tools_index_postings() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM tools_posting AS posting
        USING unnest(OLD.search_vector) AS entry
        WHERE posting.tenant_id = OLD.tenant_id AND posting.lexeme = entry.lexeme AND posting.tool_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.active THEN
        INSERT INTO tools_posting (tenant_id, lexeme, tool_id, weight)
        SELECT NEW.tenant_id, term.lexeme, NEW.id, term.weight FROM tools_posting_weights(NEW.search_vector) AS term;
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER tools_tool_postings_insert_delete AFTER INSERT OR DELETE ON tools_tool
FOR EACH ROW EXECUTE FUNCTION tools_index_postings();

CREATE TRIGGER tools_tool_postings_update AFTER UPDATE ON tools_tool
FOR EACH ROW WHEN (OLD.search_vector IS DISTINCT FROM NEW.search_vector OR OLD.active <> NEW.active)
EXECUTE FUNCTION tools_index_postings();
