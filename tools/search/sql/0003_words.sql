-- Splits identifiers into their words: getUserById, chat.postMessage and list_pull_requests become "get User By Id",
-- "chat post Message" and "list pull requests". Every sign that is neither letter nor digit becomes a space, so no text
-- can be read as a URL, an e-mail address or an operator by the text search parser. Chinese, Japanese and Korean
-- characters stand alone, since these scripts write no spaces between words.
--
-- The generated column tools_tool.search_vector and the search function both call it, so that a text and a question are
-- always split alike. It is IMMUTABLE: a changed body needs search_vector rewritten and the postings rebuilt.
CREATE FUNCTION tools_words(source text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.regexp_replace(
    pg_catalog.regexp_replace(
        pg_catalog.regexp_replace(
            pg_catalog.regexp_replace(source, '([[:lower:][:digit:]])([[:upper:]])', '\1 \2', 'g'),
            '([[:upper:]])([[:upper:]][[:lower:]])', '\1 \2', 'g'),
        '[^[:alnum:]]+', ' ', 'g'),
    '([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])', ' \1 ', 'g');
