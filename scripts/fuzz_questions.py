"""Parse generated questions with every rule of the search: none may raise, none may take much longer than a plain one.

    python scripts/fuzz_questions.py [--count 200000] [--seed 0]

Prints the slowest, by processor time and by the clock. Exits with 1 if one raised or took longer.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.search.generated import is_slow, limit_of, questions, read

SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    worst: list[tuple[float, float, str]] = []
    failed = 0
    slow = 0
    total = 0.0
    usual = limit_of("")
    for question in questions(given.count, given.seed):
        try:
            seconds = read(question)
        except Exception:  # to find any is the purpose
            failed += 1
            print(f"raised: {question[:120]!r}\n{traceback.format_exc(limit=-2)}", file=sys.stderr)
            continue
        total += seconds
        slow += seconds > usual and is_slow(question)
        if len(worst) < SHOWN or seconds > worst[0][0]:
            # A slow result may have been disturbed: the best of three counts.
            again = [_by_both_clocks(question) for _ in range(3)]
            seconds, by_clock = (min(times) for times in zip(*again, strict=True))
            heapq.heappush(worst, (seconds, by_clock, question[:100]))
            worst = heapq.nlargest(SHOWN, worst)
            heapq.heapify(worst)
    worst.sort(reverse=True)
    print(
        f"{given.count} questions, {failed} raised, {slow} slow, {1000 * total / max(1, given.count):.2f} ms on average"
    )
    print(f"{'processor':>12}{'clock':>12}")
    for seconds, by_clock, question in worst:
        print(f"{1000 * seconds:9.1f} ms{1000 * by_clock:9.1f} ms  {question!r}")
    return 1 if failed or slow else 0


def _by_both_clocks(question: str) -> tuple[float, float]:
    """The seconds that a question takes, of the processor and of the clock."""
    started = time.perf_counter()
    seconds = read(question)
    return seconds, time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
