"""What control messages are made of, one table of phrases for each language.

A tag names what a phrase stands for; the grammar (``sabir.agents.control.grammar``) is written in tags and is the
same for all languages. Phrases are separated by ``|``. A tag such as ``format:text`` has a value behind the colon.
Words with the tag ``filler`` carry no meaning and are skipped; every word that is in no table is unknown, and a
sentence with an unknown word never acts.
"""

from .english import ENGLISH
from .french import FRENCH
from .german import GERMAN
from .spanish import SPANISH

__all__ = ["ENGLISH", "FRENCH", "GERMAN", "SPANISH"]
