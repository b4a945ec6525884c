"""Corrects a question's typing mistakes before both arms read it (SRC-13). The rule and its figures: docs/search.md, *Spelling*.

A word is known if an entity that the caller may see has it, or if English has it. Any other becomes the word at one edit that most
of those entities have, or else the commonest of English. So a correction tells nothing of what the caller may not see.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from string import ascii_lowercase

from django.conf import settings
from django.db import connection

from embeddings.providers.vocabulary import whole_words
from portal.tenancy.context import tenant_context
from portal.tenancy.rights import Rights
from tools.models.tool import found_by
from tools.search.query import Correction, SearchQuery
from tools.search.sql import load

LEAST_LETTERS = 4
"""Of a word that is corrected. A shorter one is one edit from too many others."""
MOST_LETTERS = 24
"""Of a word that is corrected. A longer one is a token or a key."""
LONG_ENDING = 3
"""Letters of an ending that is no slip of the finger where stemming cuts it off: personalized, captivating."""
MOST_WORDS = 12
"""Unknown words of a question that are looked at, the first ones: each costs some 500 look-ups."""

_KNOWN_WORDS = load("known_words.sql")
_CHUNK = re.compile(r"\S+")
_AROUND = ".,;:?!'\"()"
_WORD = re.compile(r"[^\W\d_]+")
# Digits, and signs within that addresses, paths, calls and assignments have.
_NO_WORDS = re.compile(r"\d|[/\\@~=<>{}|]|\w[.:#(]\w")
# How English inflects: the ending, and what the word may have in its place.
_ENDINGS = (
    ("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y"), ("ing", ""), ("ing", "e"),
    ("er", ""), ("er", "e"), ("ers", ""), ("ers", "e"), ("est", ""), ("est", "e"), ("ly", ""), ("able", ""), ("able", "e"),
)  # fmt: skip


Own = Mapping[str, tuple[str, int]]
"""Words in lower case that entities have in any form which the caller may see: the lexeme, and the number of these entities."""
LookUp = Callable[[list[str]], Own]
"""Which of these words entities have."""


def corrected(rights: Rights, query: SearchQuery) -> tuple[SearchQuery, tuple[Correction, ...]]:
    """The question as it is to be read, and what was corrected in it: nothing if that is switched off."""
    if not (query.correct and settings.SEARCH_SPELLING):
        return query, ()
    text, corrections = correct(query.text, partial(_known_words, rights))
    return (replace(query, text=text) if corrections else query), corrections


def _known_words(rights: Rights, words: list[str]) -> Own:
    with tenant_context(rights.tenant_id), connection.cursor() as cursor:
        cursor.execute(_KNOWN_WORDS, {"kind": "tool", "rights": json.dumps(found_by(rights)), "words": words})
        return {word: (lexeme, frequency) for word, lexeme, frequency in cursor.fetchall()}


def correct(text: str, look_up: LookUp) -> tuple[str, tuple[Correction, ...]]:
    """The corrected text and what was changed in it, in the order of the text. `look_up` is called only if a word is not
    English, and a second time if one is unknown."""
    english = whole_words()
    if not english:
        return text, ()
    text = unicodedata.normalize("NFC", text)
    words = list(_words(text, english))
    asked = list(dict.fromkeys(_letters(word) for word, _ in words))
    if not asked:
        return text, ()
    known = look_up(asked)
    unknown = [word for word in asked if _form(word, known, english) is None][:MOST_WORDS]
    if not unknown:
        return text, ()
    near = {word: _edits(word) for word in unknown}
    own = look_up([edit for edits in near.values() for edit in edits])
    corrections, pieces, end = [], [], 0
    for word, start in words:
        right = _best(word, near.get(_letters(word), ()), own, english)
        if right is not None:
            corrections.append(Correction(word, _as_written(right, word)))
            pieces += [text[end:start], corrections[-1].corrected]
            end = start + len(word)
    return "".join([*pieces, text[end:]]), tuple(dict.fromkeys(corrections))


def _words(text: str, english: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The words that may be mistyped, with the places where they begin."""
    for chunk in _CHUNK.finditer(text):
        # Nearly all are; looking closer takes ten times as long.
        if chunk[0].lower().strip(_AROUND) in english or _NO_WORDS.search(chunk[0]):
            continue
        for found in _WORD.finditer(text, *chunk.span()):
            if LEAST_LETTERS <= len(found[0]) <= MOST_LETTERS:
                letters = _letters(found[0])
                if letters.isascii() and not _is_english(letters, english):
                    yield found[0], found.start()


def _letters(word: str) -> str:
    """In lower case and without accents, as English and the index have it."""
    word = word.lower()
    if word.isascii():
        return word
    return "".join(
        letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter)
    )


def _is_english(word: str, english: Mapping[str, int]) -> bool:
    """Whether it is a word of English or an inflection of one (`retries`, `batching`, `mapped`)."""
    if word in english:
        return True
    for ending, instead in _ENDINGS:
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            doubled = len(stem) >= LEAST_LETTERS and stem[-1] == stem[-2]
            if doubled and stem[-1] != "s" and stem[:-1] in english:
                return True
            # Not `detailss`, and not `neeed` of `nee`.
            if (
                stem + instead in english
                and (ending != "s" or stem[-1] != "s")
                and len(stem + instead) >= LEAST_LETTERS
            ):
                return True
            if ending in ("s", "ing") and len(stem) == LEAST_LETTERS - 1 and stem in english:
                return True
    return False


def _edits(word: str) -> list[str]:
    """What one letter left out, added, mistyped or swapped with the next makes of the word, the word itself among them."""
    parts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    edits = [before + after[1:] for before, after in parts if after]
    edits += [before + after[1] + after[0] + after[2:] for before, after in parts if len(after) > 1]
    edits += [before + letter + after[1:] for before, after in parts if after for letter in ascii_lowercase]
    edits += [before + letter + after for before, after in parts for letter in ascii_lowercase]
    return list(dict.fromkeys(edits))


def _form(word: str, own: Own, english: Mapping[str, int]) -> int | None:
    """How sure it is that entities have the word in this very form, as only its lexeme is known: 0 of a word of English and of the
    lexeme itself, 1 where stemming may have cut off an e or a y, 2 of a plural and of a long ending, None of what no entity has or nobody writes."""
    if word not in own:
        return None
    lexeme, _ = own[word]
    if word == lexeme or _is_english(word, english):
        return 0
    if (word == f"{lexeme}e" and lexeme[-1] not in "aeiou") or word == f"{lexeme[:-1]}y":
        return 1
    plural = (word == f"{lexeme}s" and lexeme[-1] != "s") or word == f"{lexeme}es"
    if plural or len(word) - len(lexeme) >= LONG_ENDING:
        return 2
    return None


def _best(word: str, edits: Sequence[str], own: Own, english: Mapping[str, int]) -> str | None:
    """The edit that most entities have, else the commonest of English; before other ones those that begin alike. A word with capitals
    within is a name, which is no mistyped word of English."""
    initial = _letters(word[0])
    forms = {edit: form for edit in edits if (form := _form(edit, own, english)) is not None}
    if forms:
        return min(
            forms,
            key=lambda edit: (
                forms[edit],
                not edit.startswith(initial),
                -own[edit][1],
                english.get(edit, len(english) * 2),
                len(edit),
                edit,
            ),
        )
    if not word[1:].islower():
        return None
    common = [edit for edit in edits if len(edit) >= LEAST_LETTERS and edit in english]
    return min(common, key=lambda edit: (not edit.startswith(initial), english[edit]), default=None)


def _as_written(right: str, word: str) -> str:
    """With the capitals of the word that was typed."""
    if word.isupper():
        return right.upper()
    return right.capitalize() if word[0].isupper() else right
