"""What meets the conditions of a question, if nothing that meets them is about its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sabir.search import OnSite, SearchQuery
from sabir.search.query.conditions import During
from sabir.search.query.relaxing import inner
from sabir.search.query.words import content_words, tokens

if TYPE_CHECKING:
    from .search import Finding

# Words for whom something is; a thing often says so by an age, or not at all.
WHOM: Final = frozenset(
    """child kid toddler baby teen teenager youth family adult senior student beginner everyone parent grandchild
    kinder kind jugendliche familie erwachsene senioren anfanger nino nina infantil familia adulto mayor joven
    enfant famille adulte ado jeune bebe senior debutant""".split()  # noqa: SIM905
)


async def find_nearly(finding: Finding, depth: int) -> None:
    """What meets the conditions, if there are any and nothing that meets them is about the words."""
    narrowing = [condition for condition in finding.parsed.conditions if not isinstance(condition, OnSite)]
    if not narrowing or not finding.parsed.text or finding.ask.min_score is not None:
        return
    found = await finding.engine.search(SearchQuery(finding.parsed.text, finding.where(), 0, depth))
    if not found.hits:  # not even one of the words
        found = await finding.engine.search(SearchQuery("", finding.where(), 0, depth))
    said = {word for words in finding.parsed.said for word in tokens(words)}
    left = (word.strip(" ?!.,;:") for word in finding.parsed.text.split())
    words = " ".join(word for word in left if not said.issuperset(content_words(word)))
    if found.hits and words:
        finding.parsed = finding.parsed.without(words, "nothing that meets the rest is about it")
        finding.show_all(found.hits[: finding.start + finding.limit])
        finding.unmet = words


async def find_for_anybody(finding: Finding, depth: int) -> None:
    """What is at the time that is asked about, if the words only say for whom it should be and nothing there says so:
    "what is on in February for the kids?"."""
    parsed = finding.parsed
    words = content_words(parsed.text)
    is_dated = any(isinstance(one, During) for one in inner(parsed.conditions))
    if not words or not is_dated or not WHOM.issuperset(words) or finding.ask.min_score is not None:
        return
    found = await finding.engine.search(SearchQuery(parsed.text, finding.where(), 0, depth))
    if not found.hits:
        found = await finding.engine.search(SearchQuery("", finding.where(), 0, depth))
    if found.hits:
        finding.parsed = parsed.without(" ".join(words), "what is there then does not say for whom it is")
        finding.show_all(found.hits)
