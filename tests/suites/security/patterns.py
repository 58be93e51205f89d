"""Every regular expression of the source, and the texts that hurt regular expressions most.

Patterns are collected twice: those that a module keeps (compiled, also inside tables), and those that stand in a
call such as ``re.sub(r"...", ...)``, whose expression is evaluated in the names of its module.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import signal
import time
from collections.abc import Iterable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]  # no public name for the parse tree
from re import _parser  # type: ignore[attr-defined]
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import sabir
from sabir.search.query.prefilter import PatternTable

CALLS = {"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
SUFFIXES = ("", "\x00", " x!", "x")
_CALL = re.compile(rf"\bre\s*\.\s*(?:{'|'.join(sorted(CALLS))})\b")
MAX_PUMPS = 12


class Found(NamedTuple):
    """A pattern, the place it comes from, and the method it is used by."""

    where: str
    pattern: re.Pattern[str]
    method: str


def modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(sabir.__path__, "sabir."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def collect() -> tuple[list[Found], list[str]]:
    """All patterns on text, without duplicates, and the calls whose pattern could not be evaluated."""
    found: dict[tuple[str, int], Found] = {}
    unknown: list[str] = []
    for module in modules():
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            for pattern in _kept([value], depth=4):
                method = _method(name, source)
                found.setdefault((pattern.pattern, pattern.flags), Found(f"{module.__name__}.{name}", pattern, method))
        for where, text, flags, method in _called(module, source, unknown):
            pattern = re.compile(text, flags)
            found.setdefault((pattern.pattern, pattern.flags), Found(where, pattern, method))
    return list(found.values()), unknown


def _kept(values: Iterable[Any], depth: int) -> Iterator[re.Pattern[str]]:
    for value in values:
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
            yield value
        elif depth and isinstance(value, PatternTable):
            yield from _kept(value.rows, depth - 1)
        elif depth and isinstance(value, dict):
            yield from _kept([*value, *value.values()], depth - 1)
        elif depth and isinstance(value, (tuple, list, set, frozenset)):
            yield from _kept(value, depth - 1)


def _method(name: str, source: str) -> str:
    """The method that a module uses its pattern by; the most searching one where there are several, or none is seen."""
    used = set(re.findall(rf"\b{name}\.(search|match|fullmatch|sub|subn|split|findall|finditer)\(", source))
    return used.pop() if len(used) == 1 else "finditer"


def _called(module: ModuleType, source: str, unknown: list[str]) -> Iterator[tuple[str, str, int, str]]:
    """The patterns that stand in calls of ``re``, wherever in the module that is."""
    if not _CALL.search(source):  # parsing takes long
        return
    names = {**vars(module), "re": re}
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in CALLS):
            continue
        try:
            flags = _flags(node, names)
            text = eval(ast.unparse(node.args[0]), names)
        except NameError:
            unknown.append(f"{module.__name__}: {ast.unparse(node.args[0])}")
            continue
        if isinstance(text, str) and node.func.attr != "compile":  # compiled ones are kept by a name
            yield f"{module.__name__}:{node.lineno}", text, flags, node.func.attr


def _flags(call: ast.Call, names: dict[str, Any]) -> int:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(getattr(call.func, "attr", ""), 2)
    if len(call.args) > at:
        given.append(call.args[at])
    return int(eval(ast.unparse(given[0]), names)) if given else 0


# Texts


def attacks(pattern: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """Prefix, pump and suffix of texts on which this pattern could backtrack: a repetition, pumped, then a mismatch."""
    seen = set()
    tree = _parser.parse(pattern.pattern, pattern.flags)
    for prefix, body in _repeated(list(tree), ""):
        bodies = list(dict.fromkeys(_examples(body, 2)))[:MAX_PUMPS]
        again = [prefix + bodies[0]] if prefix and bodies else []
        for pump in [*bodies, *again]:
            for start in dict.fromkeys((prefix, "")):
                for suffix in SUFFIXES:
                    if pump and (start, pump, suffix) not in seen:
                        seen.add((start, pump, suffix))
                        yield start, pump, suffix


def _repeated(nodes: list[Any], prefix: str) -> Iterator[tuple[str, list[Any]]]:
    """Each repetition without a small limit, with a text that leads up to it."""
    for op, value in nodes:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            _, high, body = value
            if high == sre.MAXREPEAT or high > 20:
                yield prefix, list(body)
        for inner in _inside(op, value):
            yield from _repeated(inner, prefix)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[1] == sre.MAXREPEAT:
            yield prefix, [(op, value)]
        prefix += next(iter(_examples([(op, value)], 1)), "")


def _inside(op: Any, value: Any) -> list[list[Any]]:
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [list(value[2])]
    if op is sre.SUBPATTERN:
        return [list(value[3])]
    if op is sre.BRANCH:
        return [list(branch) for branch in value[1]]
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [list(value[1])]
    return []


def _examples(nodes: list[Any], several: int) -> list[str]:
    """Texts that a part of a pattern matches: at most a handful, the first being the plainest."""
    texts = [""]
    for op, value in nodes:
        options = _options(op, value, several)
        texts = [text + option for text in texts[:MAX_PUMPS] for option in options[:MAX_PUMPS]]
    return texts


def _options(op: Any, value: Any, several: int) -> list[str]:
    if op is sre.LITERAL:
        return [chr(value)]
    if op in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.CATEGORY):
        return _characters(op, value)[: 1 if several == 1 else 6]
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        low, _, body = value
        count = max(low, 1 if several > 1 else low)
        texts = [text * count for text in _examples(list(body), several)]
        return texts if low or several == 1 else [*texts, ""]
    if op is sre.BRANCH:
        branches = [_examples(list(branch), 1) for branch in value[1]]
        return [text for branch in branches for text in branch[:1]][: 1 if several == 1 else MAX_PUMPS]
    if op is sre.SUBPATTERN:
        return _examples(list(value[3]), several)
    return [""]


_ALPHABET = "a0 ,.-_'\n\"<&é@:;/x1e"


def _characters(op: Any, value: Any) -> list[str]:
    if op is sre.ANY:
        return ["a", " ", "0", '"', "/"]
    if op is sre.NOT_LITERAL:
        return [item for item in _ALPHABET if item != chr(value)][:3]
    parts = value if op is sre.IN else [(op, value)]
    negated = parts[0][0] is sre.NEGATE
    matching = [item for item in _ALPHABET if any(_in_set(item, part) for part in parts) != negated]
    if not matching:
        first = next((part for part in parts if part[0] in (sre.LITERAL, sre.RANGE)), None)
        if first is not None:
            matching = [chr(first[1] if first[0] is sre.LITERAL else first[1][0])]
    return matching or [""]


_CATEGORIES = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_WORD: lambda item: item.isalnum() or item == "_",
    sre.CATEGORY_NOT_DIGIT: lambda item: not item.isdigit(),
    sre.CATEGORY_NOT_SPACE: lambda item: not item.isspace(),
    sre.CATEGORY_NOT_WORD: lambda item: not (item.isalnum() or item == "_"),
}


def _in_set(item: str, part: tuple[Any, Any]) -> bool:
    op, value = part
    if op is sre.LITERAL:
        return bool(chr(value) == item)
    if op is sre.RANGE:
        return bool(value[0] <= ord(item) <= value[1])
    if op is sre.CATEGORY:
        return bool(_CATEGORIES[value](item))
    return False


# Time


class TooSlow(Exception):
    """A pattern was still searching at the end of its time."""


def seconds(found: Found, text: str, limit: float) -> float:
    """How long a pattern takes on a text, used as the source uses it; at most a little more than the limit.

    The search is ended by a signal, which the ``re`` module looks for while it backtracks.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    start = time.process_time()
    try:
        if found.method in ("match", "fullmatch", "search"):
            getattr(found.pattern, found.method)(text)
        else:
            found.pattern.findall(text)
        return time.process_time() - start
    except TooSlow:
        return limit
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
