-- Which of the words the entities have that the caller may see (tools/search/spelling.py). 0021_words.sql has the function.
SELECT word, lexeme, frequency FROM search_words(%(kind)s, %(rights)s::jsonb, %(words)s::text[])
