"""Finds and fixes off-by-one errors: tries changes of the failing line in the sandbox until the program runs."""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox import Outcome, run


@dataclass(frozen=True)
class Repair:
    """The outcome for a program: the fixed code, or why it could not be fixed."""

    outcome: Outcome  # of the original program
    fixed: str | None = None
    explanation: str = ""

    def diff(self, code: str) -> str:
        given, fixed = code.splitlines(keepends=True), (self.fixed or code).splitlines(keepends=True)
        return "".join(difflib.unified_diff(given, fixed, "original.py", "fixed.py"))


def repair(code: str) -> Repair:
    """Run a program; if it fails with an index error, try the usual fixes."""
    outcome = run(code)
    if outcome.ok or outcome.crashed or not outcome.error.startswith("IndexError"):
        return Repair(outcome)
    for changed, explanation in candidates(code):
        if run(changed).ok:
            return Repair(outcome, changed, explanation)
    return Repair(outcome)


def candidates(code: str) -> Iterator[tuple[str, str]]:
    """Versions of the program that differ in one expression, with a description of each change."""
    tree = ast.parse(code)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    for node in nodes:
        for replacement, explanation in _changes(node):
            lines = code.splitlines(keepends=True)
            if node.lineno != node.end_lineno:
                continue
            line = lines[node.lineno - 1].encode()
            text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(replacement)))
            lines[node.lineno - 1] = (line[: node.col_offset] + text.encode() + line[node.end_col_offset :]).decode()
            yield "".join(lines), explanation


def _changes(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
        *first, end = node.args[:2]
        if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add):
            text = f"The loop ran to {ast.unparse(end)}, which is beyond the last index; it now ends at"
            yield ast.Call(node.func, [*first, end.left], []), f"{text} {ast.unparse(end.left)}."
        shorter = ast.BinOp(end, ast.Sub(), ast.Constant(1))
        text = "The loop used the index after its own, which the last pass does not have; it now ends one earlier."
        yield ast.Call(node.func, [*first, shorter], []), text
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.LtE):
        text = f"{ast.unparse(node)} lets the index reach the length; it must stay below it."
        yield ast.Compare(node.left, [ast.Lt()], node.comparators), text
    if isinstance(node, ast.Subscript) and _is_length(node.slice):
        text = f"{ast.unparse(node)} is one behind the last element, which has the index -1."
        yield ast.Subscript(node.value, ast.UnaryOp(ast.USub(), ast.Constant(1)), node.ctx), text


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
