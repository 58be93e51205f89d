"""Retrieval quality on Cranfield, by the default configuration of the index.

    python bench/retrieval.py [PATH]        # or SABIR_CRANFIELD; default ../shared/data/cranfield

Prints nDCG@10 and Recall@100 of words alone, meaning alone, reciprocal rank fusion, the index's own ranking, and a site
agent's answers (``/ask``), with binary relevance (codes 1 to 4 relevant). Exits with 1 below 0.42 and 0.79, or if
``/ask`` loses more than 0.005 to the index.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sabir.agents.site.agent import Site, SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import Item, LocalIndex, MiniLM, SearchQuery
from sabir.turn import Turn

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent.parent / "shared" / "data" / "cranfield"
MAX_LOSS = 0.005  # of /ask compared with the index
WANTED = {"nDCG@10": 0.42, "Recall@100": 0.79}


def reciprocal(rankings: Iterable[Iterable[int]], k: int = 60) -> list[int]:
    """Reciprocal rank fusion of any number of rankings, as a yardstick."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (k + place)
    return sorted(scores, key=lambda key: (-scores[key], key))


def documents(path: Path) -> list[Item]:
    items = []
    for block in re.split(r"^\.I ", (path / "cran.all").read_text(), flags=re.M)[1:]:
        number, rest = block.split("\n", 1)
        pieces = re.split(r"^\.([TABW])\n", rest, flags=re.M)
        fields = {key: " ".join(value.split()) for key, value in zip(pieces[1::2], pieces[2::2], strict=True)}
        title, text = fields.get("T", ""), fields.get("W", "")
        items.append(Item(number.strip(), "cranfield", title or "untitled", ("ScholarlyArticle",), text=text))
    return items


def queries(path: Path) -> list[str]:
    blocks = re.split(r"^\.I ", (path / "cran.qry").read_text(), flags=re.M)[1:]
    return [" ".join(re.split(r"^\.W\n", block, flags=re.M)[1].split()) for block in blocks]


def judgements(path: Path) -> Mapping[int, set[str]]:
    """For each query, by its position in the file, its relevant documents."""
    relevant: dict[int, set[str]] = {}
    for line in (path / "cran.rel").read_text().splitlines():
        query, document, code = line.split()[:3]
        if int(code) > 0:
            relevant.setdefault(int(query), set()).add(document)
    return relevant


def ndcg(ranking: Sequence[str], relevant: set[str], depth: int = 10) -> float:
    gain = sum(1 / math.log2(place + 2) for place, item in enumerate(ranking[:depth]) if item in relevant)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(depth, len(relevant))))
    return gain / ideal if ideal else 0.0


def recall(ranking: Sequence[str], relevant: set[str], depth: int = 100) -> float:
    return len(relevant.intersection(ranking[:depth])) / len(relevant)


async def asked(site: Site, text: str) -> list[str]:
    """The ids that a site agent answers with."""
    turn = Turn(Message.of(text_part(text), SiteAsk(limit=200).part()))
    [reply] = [event.message async for event in site(turn) if isinstance(event, Reply)]
    return [part.value["@id"] for part in reply.parts if part.label == "result"]


async def rankings(path: Path) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {
        "words": [],
        "meaning": [],
        "reciprocal rank fusion": [],
        "index": [],
        "/ask": [],
    }
    with tempfile.TemporaryDirectory() as scratch:
        words = LocalIndex(None, None)
        await words.put(documents(path))
        async with LocalIndex(scratch, MiniLM()) as index:
            started = time.perf_counter()
            await index.put(documents(path))
            await index.settled()
            print(f"indexed and embedded in {time.perf_counter() - started:.0f} s")
            started = time.perf_counter()
            site = Site(index, questions=False)
            for text in queries(path):
                found["/ask"].append(await asked(site, text))
                hits = (await index.search(SearchQuery(text, limit=200))).hits
                found["index"].append([hit.item.id for hit in hits])
                near = sorted(hits, key=lambda hit: -(hit.semantic or 0.0))
                found["meaning"].append([hit.item.id for hit in near])
                lexical = [hit.item.id for hit in (await words.search(SearchQuery(text, limit=200))).hits]
                found["words"].append(lexical)
                places = reciprocal([[int(item) for item in lexical], [int(hit.item.id) for hit in near]])
                found["reciprocal rank fusion"].append([str(place) for place in places])
            print(f"{len(queries(path))} queries in {time.perf_counter() - started:.1f} s")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("path", nargs="?", default=os.environ.get("SABIR_CRANFIELD", str(DEFAULT)), type=Path)
    path = parser.parse_args().path
    if not (path / "cran.all").exists():
        print(f"no Cranfield collection in {path}", file=sys.stderr)
        return 2
    relevant = judgements(path)
    by_name: dict[str, dict[str, float]] = {}
    for name, lists in asyncio.run(rankings(path)).items():
        pairs = [(ranking, relevant[number]) for number, ranking in enumerate(lists, 1) if relevant.get(number)]
        scores = by_name[name] = {
            "nDCG@10": sum(ndcg(*pair) for pair in pairs) / len(pairs),
            "Recall@100": sum(recall(*pair) for pair in pairs) / len(pairs),
        }
        print(f"{name:<24}" + "  ".join(f"{metric} {value:.4f}" for metric, value in scores.items()))
    found, answered = by_name["index"], by_name["/ask"]
    is_good = all(found[metric] >= least for metric, least in WANTED.items())
    return 0 if is_good and all(answered[metric] >= found[metric] - MAX_LOSS for metric in WANTED) else 1


if __name__ == "__main__":
    sys.exit(main())
