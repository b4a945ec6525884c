-- Which of the words are known to the caller, and to how many entities (tools/search/service.py). 0021_words.sql has the function.
SELECT word, frequency FROM search_words(%(kind)s, %(rights)s::jsonb, %(words)s::text[])
