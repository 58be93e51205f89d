"""A question in the words that a site has for things, if it is in another language than the site."""

from __future__ import annotations

from typing import Final

from sabir.search import Condition, Engine, SearchQuery
from sabir.search.items.types import TYPE_WORDS
from sabir.search.query.conditions import AnyOf, Has, Is
from sabir.search.query.glossary import FUNCTION_WORDS, glossary, glossed, language_of, same_words, without_idle
from sabir.search.query.phrasal import in_one_word
from sabir.search.query.translated import in_words_of

_SPOKEN: Final = 0.1  # share of the items in a language from which a site is in it, too
_NAMING: Final = 5  # letters of a word that may be within a field's name
# English words that rules read, and that glossaries translate to.
_READ: Final = frozenset(
    """free cheap cheapest expensive open closed stock sold out rated top newest quickest admission ticket tickets price
    event events today tomorrow morning afternoon evening night weekend week month year day hour hours minute
    minutes time times cost costs phone number address spring summer autumn winter online""".split()  # noqa: SIM905
)
# English words for the kind of fact that is asked for.
_KINDS: Final = frozenset(
    {"time", "times", "hour", "hours", "cost", "costs", "price", "prices", "phone", "number", "address"}
)


def _function_words(language: str) -> frozenset[str]:
    """The words of a language that say nothing of a thing."""
    known = glossary(language) if language != "en" else None
    return known.words | {term for term, said in known.terms.items() if not said} if known else frozenset()


class SiteWords:
    """The words of the items that meet some conditions."""

    def __init__(self, engine: Engine, where: tuple[Condition, ...]) -> None:
        self._engine, self._where = engine, where

    async def asked(self, question: str, language: str) -> str:
        """The question in the words of the site; unchanged, if it has them already."""
        if language == "en" and not await self._is_foreign():
            shorter, verb = in_one_word(question)
            return shorter if verb and await self._has_any((verb,)) else question
        if language == "en" or await self._is_spoken(language, question):
            kept = {*glossary(language).terms, *same_words()} if language != "en" else await self._types() | _KINDS
            idle = _function_words(language)

            async def is_here(words: tuple[str, ...]) -> bool:  # "fils" is no "son", which a French page has anyway
                return words[0] not in idle and await self._has_any(words)

            return await in_words_of(question, language, is_here, is_foreign=False, kept=kept)
        plain = without_idle(glossed(question, language), language)
        worded = await in_words_of(plain, language, self._has_any, is_foreign=True)
        return " ".join((await self.named(worded)).split()) or question

    async def named(self, english: str) -> str:
        """English words that rules do not read, in those of the site: "for beginners" as "for principiantes"."""
        if not await self._is_foreign():
            return english
        kept = await self._types() | _READ
        return await in_words_of(english, "en", self._has_any, is_foreign=False, kept=kept)

    async def is_in(self, language: str) -> bool:
        """Whether the site is written in a language."""
        return await self._is_spoken(language)

    async def _is_foreign(self) -> bool:
        """Whether some of the site is in another language than English."""
        return any([await self._is_spoken(language) for language in FUNCTION_WORDS])

    async def _is_spoken(self, language: str, question: str = "") -> bool:
        """Whether items here are written in a language: they say so, or have its function words."""
        if language == "ja":
            hits = (await self._engine.search(SearchQuery(question, self._where, 0, 1))).hits
            return bool(hits) and language_of(hits[0].item.name) == "ja"
        total = await self._engine.count(self._where)
        written = AnyOf((Has(FUNCTION_WORDS[language]), Is("inlanguage", (language,))))
        return await self._engine.count((*self._where, written)) >= max(1.0, _SPOKEN * total)

    async def _types(self) -> frozenset[str]:
        """Words for types of things that are here, which rules read."""
        types = (await self._engine.fields()).types
        return frozenset(word for word, kind in TYPE_WORDS.items() if kind in types)

    async def _has_any(self, words: tuple[str, ...]) -> bool:
        """Whether an item has one of these words, or a field is named by the first: "bedroom"."""
        if await self._engine.count((*self._where, Has(words))):
            return True
        fields = await self._engine.fields()
        return len(words[0]) >= _NAMING and any(words[0] in field for field in (*fields.numbers, *fields.words))
