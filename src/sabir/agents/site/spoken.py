"""The question of a search as the rules read it: in English, with its spelling corrected by the words of the site."""

from __future__ import annotations

from typing import Final

from sabir.search import Condition, Engine, OnSite, SearchQuery
from sabir.search.engine.embed import is_word
from sabir.search.items.attributes import recalled
from sabir.search.query.conditions import Has
from sabir.search.query.glossary import glossed, heads_of, language_of, same_words
from sabir.search.query.spelling import corrected, doubtful, nearest, strange
from sabir.search.query.text import MAX_READ
from sabir.search.query.words import fold, tokens

from .own_words import SiteWords

_COMPOUND: Final = 9  # a German word with this many letters may be a compound
_COMPOUNDS: Final = 4  # compounds of one question that are tried
_SLIPS: Final = 4  # words of one question that are tried as misspelt
_LOOKED_THROUGH: Final = 20  # hits whose words may be the one that was meant
_READ: Final = 2_000  # characters of a text


class SpokenQuestion:
    """A question to a site, or to all of an index."""

    def __init__(self, engine: Engine, site: str | None) -> None:
        self.engine, self.site = engine, site
        self.question = ""

    def own(self) -> tuple[Condition, ...]:
        """The condition that everything of this agent's site meets."""
        return (OnSite((self.site,)),) if self.site is not None else ()

    async def _in_english(self) -> str:
        """The question as the rules read it: in English, with spelling corrected if no item has the words as
        written."""
        language = language_of(self.question)
        if len(self.question) > MAX_READ:
            return glossed(self.question, language)
        question = (
            await self._spelt()
            if language == "en"
            else await SiteWords(self.engine, self.own()).named(glossed(self.question, language))
        )
        return await self._taken_apart(question, by_index=language == "de") if language in ("de", "en") else question

    async def _spelt(self, *, foods: bool = True) -> str:
        """The question with misspelt words corrected, if no item has them as written."""
        if len(self.question) > MAX_READ or language_of(self.question) != "en":
            return self.question
        slips: dict[str, str] = {}
        for word in [word for word in strange(self.question) if not is_word(word)][:_SLIPS]:
            if not await self._is_here(word) and (meant := nearest(word, await self._words_near(word))):
                slips[word] = meant  # a word of this site is likelier than one of a list
        for slip, word in doubtful(self.question, foods=foods):
            if slip not in slips and not is_word(slip) and not await self._is_here(slip):
                slips[slip] = word
        return corrected(self.question, slips)

    async def _words_near(self, word: str) -> list[str]:
        """The words of the items that are found for a word, although none contains it."""
        hits = (await self.engine.search(SearchQuery(word, self.own(), 0, _LOOKED_THROUGH))).hits
        texts = (f"{hit.item.name} {hit.item.description} {hit.item.text[:_READ]}" for hit in hits)
        stated = (label for hit in hits for labels in recalled(hit.item).labels.values() for label in labels)
        return [word for text in (*texts, *stated) for word in tokens(text)]

    async def _is_here(self, word: str) -> bool:
        return await self.engine.count((Has((fold(word),)),)) > 0

    async def _taken_apart(self, question: str, *, by_index: bool) -> str:
        """The question with the last part of long words that no item has: "Fahrradschlösser" also as "Schlösser".

        The last part is a word in the glossaries, or, with ``by_index``, one that an item has.
        """
        words = [word for word in question.split() if len(word.strip(" ?!.,")) >= _COMPOUND]
        for word in words[:_COMPOUNDS]:
            if await self._is_here(word.strip(" ?!.,")):
                continue
            for head in heads_of(word.strip(" ?!.,")):
                if fold(head) in same_words() or (by_index and await self._is_here(head)):
                    question = question.replace(word, f"{word} {head}")
                    break
        return question
