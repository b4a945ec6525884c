"""The settings of search, a section of portal/settings.py."""

from __future__ import annotations

from portal import env

# fmt: off
env.section("Search")
SEARCH_QUERY_MAX_LENGTH = env.integer("SEARCH_QUERY_MAX_LENGTH", 2000, low=1, high=100_000,
    meaning="Characters of a question, at most. One that makes an address longer than 8,190 bytes goes by POST.")
SEARCH_TOP_K_MAX = env.integer("SEARCH_TOP_K_MAX", 50, low=1, high=1000,
    meaning="Results that a search may ask for, at most (SRC-3).")
SEARCH_TOP_K = env.integer("SEARCH_TOP_K", min(20, SEARCH_TOP_K_MAX), low=1, high=SEARCH_TOP_K_MAX,
    meaning="Results of a search that names no number (SRC-3).")
SEARCH_NAMES_MAX = env.integer("SEARCH_NAMES_MAX", 1000, low=1, high=100_000,
    meaning="Values of the filters `names` and `exclude`, at most (SRC-2).")
SEARCH_FILTER_VALUES_MAX = env.integer("SEARCH_FILTER_VALUES_MAX", 50, low=1, high=1000,
    meaning="Values of each other filter, at most.")
SEARCH_SEMANTIC = env.flag("SEARCH_SEMANTIC", default=True,
    meaning="Searches by meaning as well. Off: by keyword alone (SRC-5).")
SEARCH_FUSION = env.choice("SEARCH_FUSION", "score", allowed=("score", "rrf"),
    meaning="How the two rankings become one: by scores, or by ranks (reciprocal rank fusion, SRC-1).")
SEARCH_RRF_K = env.integer("SEARCH_RRF_K", 60, low=1, high=10_000,
    meaning="k of reciprocal rank fusion: a result at rank r counts 1 / (k + r).")
SEARCH_MIN_SIMILARITY = env.number("SEARCH_MIN_SIMILARITY", 0.35, low=0.01, high=1,
    meaning="Cosine under which nothing is near. A best match below it is not stretched to the full score.")
SEARCH_SEMANTIC_SHARE_MIN = env.number("SEARCH_SEMANTIC_SHARE_MIN", 0.25, low=0, high=1,
    meaning="Weight of the vectors for a question that spells out the names of its matches; the keywords have the rest.")
SEARCH_SEMANTIC_SHARE_MAX = env.number("SEARCH_SEMANTIC_SHARE_MAX", 0.75, low=SEARCH_SEMANTIC_SHARE_MIN, high=1,
    meaning="Weight of the vectors for a question that names none of its matches.")
SEARCH_SENTENCES = env.number("SEARCH_SENTENCES", 0.5, low=0, high=1,
    meaning="Weight of the best sentence of a question that has several; the whole question has the rest. 0: the whole question alone.")
SEARCH_NAME_MATCH = env.number("SEARCH_NAME_MATCH", 0.15, low=0, high=1,
    meaning="What a tool gains at most when the question says in other words what it is called. 0: nothing.")
SEARCH_CANDIDATES = env.integer("SEARCH_CANDIDATES", max(30, 2 * SEARCH_TOP_K_MAX), low=SEARCH_TOP_K_MAX, high=2000,
    meaning="Candidates that are ranked, for however few results, so that fewer are always the first of more (SRC-3).")
SEARCH_EXACT_LIMIT = env.integer("SEARCH_EXACT_LIMIT", 2500, low=0, high=1_000_000,
    meaning="Up to so many tools vectors are compared one by one; of more, first their signatures, which take less time to read.")
SEARCH_FILTERED_LIMIT = env.integer("SEARCH_FILTERED_LIMIT", 10_000, low=0, high=1_000_000,
    meaning="Up to so many tools that pass the filters of a search are listed first; of more, the best are tested one after the other.")
SEARCH_POSTINGS_BUDGET = env.integer("SEARCH_POSTINGS_BUDGET", 2500, low=1, high=1_000_000,
    meaning="Postings that a question reads, at most, its rarest words first.")
SEARCH_SPELLING = env.flag("SEARCH_SPELLING", default=True,
    meaning="Corrects typing mistakes in a question, and says so in the answer (SRC-13).")
SEARCH_QUERY_CACHE = env.integer("SEARCH_QUERY_CACHE", 1000, low=0, high=100_000,
    meaning="Vectors of questions that each process remembers, those of each tenant apart (SRC-6).")
SEARCH_RESULT_CACHE = env.integer("SEARCH_RESULT_CACHE", 200, low=0, high=100_000,
    meaning="Answers that each process remembers until the catalogue changes; all processes share them in CACHE_URL (SRC-6). 0: none is.")
SEARCH_RESULT_CACHE_SECONDS = env.integer("SEARCH_RESULT_CACHE_SECONDS", 3600, low=1, high=86_400,
    meaning="Seconds that an answer is remembered at most.")
SEARCH_WEIGHT_SIMILARITY = env.number("SEARCH_WEIGHT_SIMILARITY", 0.5, low=0.01, high=1,
    meaning="Weight of a tool's relevance, its fused score as a share of the best one, in its score (SRC-3).")
SEARCH_WEIGHT_QUALITY = env.number("SEARCH_WEIGHT_QUALITY", 0.35, low=0, high=1,
    meaning="Weight of a tool's quality in its score; 0.5 for a tool that was never called. 0: quality does not count.")
SEARCH_WEIGHT_RECENCY = env.number("SEARCH_WEIGHT_RECENCY", 0.15, low=0, high=1,
    meaning="Weight of the time since a tool's last successful call, of which a week halves the worth; 0.5 for a tool that was never called. "
            "0: it does not count.")
SEARCH_LOG = env.choice("SEARCH_LOG", "full", allowed=("off", "redacted", "full"),
    meaning="What the log of searches keeps (SRC-9): questions with their secrets masked; `redacted`: in their place how many words they "
            "had, and a code that equal questions share; `off`: nothing is logged, and no selection is taken.")
SEARCH_LOG_DAYS = env.integer("SEARCH_LOG_DAYS", 90, low=1, high=36_500,
    meaning="Days that searches are kept in the log; beat deletes older ones daily.")
SEARCH_RERANK = env.choice("SEARCH_RERANK", "none", allowed=("none", "auto", "llm", "cross-encoder"),
    meaning="Which model orders the five best results of a search that does not say it (SRC-4); `auto`: the one that is configured, and "
            "only where the best are close.")
SEARCH_RERANK_URL = env.http_url("SEARCH_RERANK_URL",
    needed_by="SEARCH_RERANK=llm" if SEARCH_RERANK == "llm" else "",
    meaning="Address of an OpenAI-compatible server, the part before `/chat/completions`, whose language model re-ranks.")
SEARCH_RERANK_MODEL = env.text("SEARCH_RERANK_MODEL", "",
    meaning="Name of the language model there.")
SEARCH_RERANK_API_KEY = env.secret("SEARCH_RERANK_API_KEY",
    meaning="Key for SEARCH_RERANK_URL; it is sent nowhere else.")
SEARCH_RERANK_BUDGET = env.number("SEARCH_RERANK_BUDGET", 150, low=1, high=60_000,
    meaning="Milliseconds that a search waits for a model. Past them it answers in its first order; the model's serves the next time.")
SEARCH_RERANK_TIMEOUT = env.number("SEARCH_RERANK_TIMEOUT", 5, low=0.1, high=120,
    meaning="Seconds of a call to the language model, at most.")
SEARCH_RERANK_CACHE_SECONDS = env.integer("SEARCH_RERANK_CACHE_SECONDS", 3600, low=1, high=604_800,
    meaning="Seconds that a model's order is remembered.")
SEARCH_CROSS_ENCODER = env.text("SEARCH_CROSS_ENCODER", "",
    meaning="A cross-encoder of the sentence-transformers library, by its folder or by its name in this machine's cache; needs the extra "
            "`[torch]`.")
