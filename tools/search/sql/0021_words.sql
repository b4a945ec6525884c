-- Words: how a text and a question become lexemes, always alike (docs/search.md, *Words*).
--
-- The generated column tools_tool.search_vector is tools_document(name, description, search_text), and a search asks for the
-- lexemes of tools_question(text). The configuration `russian` knows two languages: it stems words of ASCII as `english` does, which
-- folding makes of all Latin words, and Cyrillic ones as Russian; words of any other script it leaves as they are, as `simple`
-- does. All functions are IMMUTABLE: a changed body needs search_vector and the postings written anew.

-- A text as people type it: normalised (NFKC), and without the accents that many leave out. Latin and Greek letters lose their
-- accents, and so does the Russian yo; Hebrew and Arabic lose their vowel signs. A letter of its own, such as ø,
-- becomes what PostgreSQL's unaccent makes of it; the extension itself is not immutable, so no column can be made by it.
CREATE FUNCTION tools_folded(source text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.translate(
        pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(
        pg_catalog.replace(pg_catalog.replace(
            pg_catalog.normalize(
                pg_catalog.regexp_replace(
                    pg_catalog.regexp_replace(
                        pg_catalog.normalize(source, 'NFKD'),
                        '([A-Za-z\u0391-\u03a9\u03b1-\u03c9\u0415\u0435])[\u0300-\u036f]+', '\1', 'g'),
                    '[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0655\u0670]+', '', 'g'),
                'NFKC'),
            'ß', 'ss'), 'ẞ', 'SS'), 'æ', 'ae'), 'Æ', 'AE'), 'œ', 'oe'), 'Œ', 'OE'), 'þ', 'th'), 'Þ', 'TH'),
        'øØłŁđĐðÐħĦŧŦı', 'oOlLdDdDhHtTi');

-- The words as they stand, with spaces between them. Every sign that is neither letter, mark nor digit becomes a space, so no text
-- can be read as a URL, an e-mail address or an operator by the text search parser. A combining mark never ends a word
-- (tools_marks). The characters of scripts that write no spaces between words stand alone, each with its marks: Chinese,
-- Japanese, Korean, Thai, Lao, Burmese and Khmer. A text of ASCII, which most are, has none of these and takes a fourth of the time.
CREATE FUNCTION tools_plain(source text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN pg_catalog.octet_length(source) = pg_catalog.length(source)
    THEN pg_catalog.regexp_replace(source, '[^a-zA-Z0-9]+', ' ', 'g')
    ELSE pg_catalog.regexp_replace(
    pg_catalog.regexp_replace(tools_folded(source), '[^[:alnum:]' || tools_marks() || ']+', ' ', 'g'),
    '([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af][' || tools_marks() || ']*)',
    ' \1 ', 'g')
END;

-- Splits plain words in mixed case: getUserById is "get User By Id", parseHTTPResponse "parse HTTP Response", and of the plural
-- of an acronym the s is a word of its own, which is a stop word: VMs is "VM s".
CREATE FUNCTION tools_split(plain text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN plain ~ '[[:alnum:]][[:upper:]]' THEN
    pg_catalog.regexp_replace(
        pg_catalog.regexp_replace(
            pg_catalog.regexp_replace(plain, '([[:lower:][:digit:]])([[:upper:]])', '\1 \2', 'g'),
            '([[:upper:]]{2})s( |$)', '\1 s\2', 'g'),
        '([[:upper:]])([[:upper:]][[:lower:]])', '\1 \2', 'g')
    ELSE plain
END;

-- The second writing of plain words in mixed case: as they stand, all others left out. Of getUserById that is the whole; of
-- revokeOAuthToken the whole and OAuth, since no rule says whether the capital before another begins a word. Each word stands
-- between two spaces of its own, which spares a look-ahead: those take the longest of all.
CREATE FUNCTION tools_unsplit(plain text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN plain ~ '[[:alnum:]][[:upper:]]' THEN
    pg_catalog.regexp_replace(' ' || pg_catalog.replace(plain, ' ', '  ') || ' ', ' (?:[[:upper:]]+[^[:upper:] ]*|[^[:upper:] ]+) ', ' ', 'g')
    || pg_catalog.regexp_replace(
        ' ' || pg_catalog.regexp_replace(
            pg_catalog.replace(plain, ' ', '  '), '([[:lower:][:digit:]])([[:upper:]])', '\1  \2', 'g') || ' ',
        ' (?:[[:upper:]][^[:upper:] ]*|[^[:upper:] ]+|[[:upper:]]+[^[:lower:] ]*) ', ' ', 'g')
    ELSE ''
END;

-- The words of any text, split.
CREATE OR REPLACE FUNCTION tools_words(source text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN tools_split(tools_plain(source));

-- The lexemes of a question, in both writings.
CREATE FUNCTION tools_question(source text) RETURNS tsvector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    SELECT pg_catalog.to_tsvector('pg_catalog.russian', tools_split(question.plain) || ' ' || tools_unsplit(question.plain))
    FROM (SELECT tools_plain(source) AS plain OFFSET 0) AS question
);

-- The lexemes of a text of the catalogue: the name with weight A, the description with B, the rest with C. A second writing is added
-- where the text does not have it anyway: words in mixed case with B (name and description) and C, and with C the name
-- squashed into one word. None has A, since the share of the name's words that a question has decides how the arms are weighed.
CREATE FUNCTION tools_document(name text, description text, rest text) RETURNS tsvector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    SELECT split.lexemes
        || pg_catalog.setweight(pg_catalog.ts_delete(
            pg_catalog.to_tsvector('pg_catalog.russian', tools_unsplit(plain.name || ' ' || plain.description)), split.known), 'B')
        || pg_catalog.setweight(pg_catalog.ts_delete(
            pg_catalog.to_tsvector('pg_catalog.russian', tools_unsplit(plain.rest) || ' ' || pg_catalog.replace(plain.name, ' ', '')),
            split.known), 'C')
    FROM (SELECT tools_plain(name) AS name, tools_plain(description) AS description, tools_plain(rest) AS rest OFFSET 0) AS plain
    CROSS JOIN LATERAL (
        SELECT lexemes, pg_catalog.tsvector_to_array(lexemes) AS known
        FROM (
            SELECT pg_catalog.setweight(pg_catalog.to_tsvector('pg_catalog.russian', tools_split(plain.name)), 'A')
                || pg_catalog.setweight(pg_catalog.to_tsvector('pg_catalog.russian', tools_split(plain.description)), 'B')
                || pg_catalog.setweight(pg_catalog.to_tsvector('pg_catalog.russian', tools_split(plain.rest)), 'C') AS lexemes
            OFFSET 0
        ) AS document
        OFFSET 0
    ) AS split
);

-- Which words the entities of a kind have that the caller may see, and how many of these have each; `most` at most are counted. With
-- the condition that search_candidates has, so that the answer tells nothing of other entities.
--
-- In: words in lower case and without accents; kind and rights as search_candidates has them. Out: a row a word that some have, in
-- any form, with its lexeme. A stop word, which has none, counts as one that all have.
CREATE FUNCTION search_words(kind text, rights jsonb, words text[], most integer DEFAULT 200)
RETURNS TABLE (word text, lexeme text, frequency bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    of record;  -- what search_kind_<kind> gives
BEGIN
    EXECUTE format('SELECT * FROM %I(''{}'', $1, 0)', 'search_kind_' || kind) INTO of USING rights;
    RETURN QUERY EXECUTE format($query$
        SELECT term.word, coalesce(term.lexeme, term.word), counted.frequency
        FROM (SELECT word, (ts_lexize('english_stem', word))[1] AS lexeme FROM unnest($1) AS word) AS term
        CROSS JOIN LATERAL (
            SELECT CASE WHEN term.lexeme IS NULL THEN $2 ELSE (
                SELECT count(*) FROM (
                    SELECT FROM %s AS posting
                    WHERE posting.tenant_id = %L AND posting.lexeme = term.lexeme
                        AND EXISTS (SELECT FROM %s AS entity WHERE entity.id = posting.entity_id AND %s OFFSET 0)
                    LIMIT $2
                ) AS seen
            ) END AS frequency
            OFFSET 0  -- so that the count is taken once and not wherever it is named
        ) AS counted
        WHERE counted.frequency > 0 $query$,
        of.postings, current_setting('portal.tenant')::uuid, of.entities, of.passes)
    USING words, most;
END;
$$;
