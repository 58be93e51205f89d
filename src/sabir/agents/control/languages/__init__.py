"""The vocabulary of control messages, one table of phrases per language.

A tag names the meaning of a phrase; the grammar (``sabir.agents.control.grammar``) is written in tags and is the same
for all languages. Phrases are separated by ``|``. A tag such as ``format:text`` has a value after the colon. Words with
the tag ``filler`` carry no meaning and are skipped; a word in no table is unknown, and a sentence with an unknown word
never acts.
"""

from .english import ENGLISH
from .french import FRENCH
from .german import GERMAN
from .spanish import SPANISH

__all__ = ["ENGLISH", "FRENCH", "GERMAN", "SPANISH"]
