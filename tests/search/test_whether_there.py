""" "Do you have …?": a "yes" is only said of what is there (questions/there.jsonl).

Most of those that are not there are near misses: a dish that is not vegan, a colour that is not sold, an event on
another day. Neither yes nor no is a fair answer; yes is not.
"""

from __future__ import annotations

import pytest

from .asking import SOURCES, answered, opened, read, says_no, says_yes

MAX_FALSE_YES = 0.02
MIN_TRUE_YES = 0.80

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_yes_is_only_said_of_what_is_there() -> None:
    said: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for site in SOURCES:
        index = await opened(site)
        for judged in read("there"):
            if judged.site == site and judged.yes is not None:
                said[judged.yes].append((judged.question, (await answered(index, judged)).text))
        await index.close()
    false_yes = [row for row in said[False] if says_yes(row[1])]
    true_yes = [row for row in said[True] if says_yes(row[1])]
    print(f"not there: {len(said[False])}, yes: {len(false_yes)}; there: {len(said[True])}, yes: {len(true_yes)}")
    assert len(said[False]) >= 40 and len(said[True]) >= 20
    assert len(false_yes) <= MAX_FALSE_YES * len(said[False]), false_yes
    assert len(true_yes) >= MIN_TRUE_YES * len(said[True])
    assert not [row for row in said[True] if says_no(row[1])]
