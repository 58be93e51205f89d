"""A report for people, for programs and for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec

from .base import LEVELS, CheckOutcome, CheckReport

MARKS: Final = {"passed": "ok", "failed": "FAILED", "declined": "declined", "skipped": "skipped"}
INDENT: Final = " " * 12  # of what continues a line of the table
FEW: Final = 5  # checks skipped for the same reason that are still listed one by one


def as_table(report: CheckReport, *, verbose: bool = False) -> str:
    """Failures first, with reasons; the rest as counts, or line by line if ``verbose``."""
    lines = [f"{report.protocol.upper()} conformance of {report.url}", ""]
    if report.stopped:
        lines += [
            f"Stopped: the agent itself fails. {report.stopped}",
            "Nothing else was checked. Fix the agent first; the log of its server may say more.",
            "",
        ]
    for binding in dict.fromkeys(outcome.binding for outcome in report.outcomes):
        of_binding = [outcome for outcome in report.outcomes if outcome.binding == binding]
        lines.append(f"{binding}: {_numbers(of_binding)}")
        lines += map(_line, of_binding) if verbose else _not_passed(of_binding)
        lines.append("")
    lines += report.notes
    numbers = {level: _numbers([one for one in report.outcomes if one.level == level]) for level in LEVELS}
    width = max(map(len, numbers.values()))
    for level in LEVELS:
        whose = "our decision where the standard is silent" if level == "ours" else f"the standard's {level}"
        lines.append(f"{level:<7} {numbers[level]:<{width}}  {whose}")
    return "\n".join(lines)


def _numbers(outcomes: list[CheckOutcome]) -> str:
    counts = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in MARKS}
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number) or "nothing to check"


def _not_passed(outcomes: list[CheckOutcome]) -> Iterator[str]:
    """What did not pass; many checks that were skipped for one reason are one line."""
    skips = Counter(outcome.reason for outcome in outcomes if outcome.verdict == "skipped")
    printed: set[str] = set()
    for outcome in outcomes:
        if outcome.verdict == "skipped" and skips[outcome.reason] > FEW:
            if outcome.reason not in printed:
                yield f"  skipped   {skips[outcome.reason]} checks: {outcome.reason}"
            printed.add(outcome.reason)
        elif outcome.verdict != "passed":
            yield _line(outcome)


def _line(outcome: CheckOutcome) -> str:
    head = f"  {MARKS[outcome.verdict]:<9} {outcome.level:<7} {outcome.id:<16} {outcome.title}"
    return f"{head}\n{INDENT}{outcome.reason}" if outcome.reason else head


def as_evidence(outcomes: Sequence[CheckOutcome]) -> str:
    """The bytes that were sent and received in these checks."""
    lines: list[str] = []
    for outcome in outcomes:
        lines += ["", f"{outcome.id}: {outcome.title}", outcome.reason]
        for item in outcome.evidence:
            lines += [f"  > {line}" for line in item.sent.splitlines()]
            lines += [f"  < {line}" for line in item.received.splitlines()]
    return "\n".join(lines)


def as_json(report: CheckReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_junit(report: CheckReport) -> str:
    """One test suite per binding, one test case per check, with the bytes as its output."""
    root = Element("testsuites", name=f"sabir check {report.url}")
    for binding in dict.fromkeys(outcome.binding for outcome in report.outcomes):
        outcomes = [outcome for outcome in report.outcomes if outcome.binding == binding]
        suite = SubElement(
            root,
            "testsuite",
            name=f"{report.protocol} {binding}",
            tests=str(len(outcomes)),
            failures=str(sum(outcome.verdict == "failed" for outcome in outcomes)),
            skipped=str(sum(outcome.verdict in ("skipped", "declined") for outcome in outcomes)),
        )
        for outcome in outcomes:
            _case(suite, outcome)
    return tostring(root, encoding="unicode")


def _case(suite: Element, outcome: CheckOutcome) -> None:
    case = SubElement(
        suite,
        "testcase",
        name=f"{outcome.id} {outcome.title}",
        classname=f"{outcome.level}.{outcome.clause}",
        time=f"{outcome.seconds:.3f}",
    )
    if outcome.verdict == "failed":
        SubElement(case, "failure", message=_xml(outcome.reason))
    elif outcome.verdict != "passed":
        SubElement(case, "skipped", message=_xml(f"{outcome.verdict}: {outcome.reason}"))
    if outcome.evidence:
        output = SubElement(case, "system-out")
        output.text = _xml("\n".join(f"> {item.sent}\n< {item.received}" for item in outcome.evidence))


def _xml(text: str) -> str:
    """Only characters that XML 1.0 allows."""
    return "".join(c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" else "\ufffd" for c in text)
