"""The question of a search as the rules read it: in English, with its spelling corrected by the words of the site."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sabir.search import Condition, Engine, Hit, OnSite, SearchQuery
from sabir.search.engine.embed import is_word
from sabir.search.items.attributes import recalled
from sabir.search.query.conditions import Has
from sabir.search.query.glossary import glossed, heads_of, language_of, same_words, words_of
from sabir.search.query.spelling import corrected, doubtful, nearest, strange
from sabir.search.query.text import MAX_READ
from sabir.search.query.translated import is_homograph, knows
from sabir.search.query.words import fold, tokens

from .own_words import SiteWords

_COMPOUND: Final = 9  # a German word with this many letters may be a compound
_COMPOUNDS: Final = 4  # compounds of one question that are tried
_SLIPS: Final = 4  # words of one question that are tried as misspelt
_LOOKED_THROUGH: Final = 20  # hits whose words may be the one that was meant
_WORD: Final = re.compile(r"[^\W_]+")
_OTHERS: Final = 100  # items of a site whose words are known, too
_READ: Final = 2_000  # characters of a text


def _words_of(hits: Sequence[Hit]) -> list[str]:
    """The words of some items, as written."""
    texts = (f"{hit.item.name} {hit.item.description} {hit.item.text[:_READ]}" for hit in hits)
    stated = (label for hit in hits for labels in recalled(hit.item).labels.values() for label in labels)
    return [word for text in (*texts, *stated) for word in _WORD.findall(text)]


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
            else await SiteWords(self.engine, self.own()).named(glossed(await self._spelt(), language))
        )
        return await self._taken_apart(question, by_index=language == "de") if language in ("de", "en") else question

    async def _spelt(self, *, foods: bool = True) -> str:
        """The question with misspelt words corrected, if no item has them as written."""
        if len(self.question) > MAX_READ:
            return self.question
        if (language := language_of(self.question)) != "en":
            return await self._spelt_abroad(language)
        slips: dict[str, str] = {}
        for word in [word for word in strange(self.question) if not is_word(word)][:_SLIPS]:
            if not await self._is_here(word) and (meant := await self._meant_by(word)):
                slips[word] = meant  # a word of this site is likelier than one of a list
        for slip, word in doubtful(self.question, foods=foods):
            if slip not in slips and not is_word(slip) and not await self._is_here(slip):
                slips[slip] = word
        return corrected(self.question, slips)

    async def _spelt_abroad(self, language: str) -> str:
        """The same in another language, for words that its glossary does not have."""
        known, slips = words_of(language), dict[str, str]()
        words = [word for word in strange(self.question) if fold(word) not in known]
        words = [word for word in words if not knows(fold(word), language) and not is_word(fold(word))][:_SLIPS]
        if words and await SiteWords(self.engine, self.own()).is_in(language):
            for word in words:
                if await self._is_here(word) or not (meant := await self._meant_by(word)):
                    continue
                if fold(word)[:-1] != fold(meant)[: len(word) - 1]:  # "mínima" is a form of "mínimo"
                    slips[word] = meant
        return corrected(self.question, slips)

    async def _meant_by(self, word: str) -> str:
        """The word of this site that is meant by one that no item has; empty if there is none.

        What is found for it comes first; what is spelt by its sound is near nothing.
        """
        found = (await self.engine.search(SearchQuery(word, self.own(), 0, _LOOKED_THROUGH))).hits
        near = _words_of(found)
        meant = nearest(word, [one for written in near for one in tokens(written)])
        if not meant:
            near = _words_of((await self.engine.search(SearchQuery("", self.own(), 0, _OTHERS))).hits)
            meant = nearest(word, [one for written in near for one in tokens(written)], is_sure=True)
        return next((written for written in near if fold(written) == meant), meant)

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
                if by_index and is_homograph(fold(head)):
                    continue  # a "Ruderboot" is no boot
                if fold(head) in same_words() or (by_index and await self._is_here(head)):
                    question = question.replace(word, f"{word} {head}")
                    break
        return question
