"""The prompts of ensemble members. A scripted model recognises its situation by them."""

from __future__ import annotations

from typing import Final

OWN_ANSWER: Final = "Your own answer so far, as"  # followed by the member's alias, a colon, and the answer
SAYS: Final = "says:"  # after the alias of another member, before its answer
ONLY_VOTE: Final = "You have given all your answers, so vote."
WON: Final = "The agents voted, and your answer won."
