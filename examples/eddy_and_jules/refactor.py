"""Suggests refactorings of Python code by its syntax tree, without a model."""

from __future__ import annotations

import ast
import builtins
import difflib
import textwrap
from collections.abc import Iterator
from typing import Any

_LEAVES = (ast.Return, ast.Yield, ast.YieldFrom, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.Await)


def suggestions(code: str) -> list[dict[str, Any]]:
    """Possible improvements of a piece of code, each as a diff that applies to it."""
    dedented = textwrap.dedent(code)
    try:
        tree = ast.parse(dedented)
    except SyntaxError:
        return []
    return [*_renames(dedented, tree), *_extractions(dedented, tree)]


def _suggestion(kind: str, text: str, before: str, after: str, confidence: float) -> dict[str, Any]:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    diff = "".join(difflib.unified_diff(*lines, "snippet.py", "snippet.py"))
    return {"change_type": kind, "description": text, "suggested_code_diff": diff, "confidence": confidence}


# -- names of one letter ----------------------------------------------------------------------------


def _renames(code: str, tree: ast.Module) -> Iterator[dict[str, Any]]:
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | set(dir(builtins))
    used |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for name, better in _short_names(tree):
        if better in used:
            continue
        if any(isinstance(node, ast.arg) and node.arg == name for node in ast.walk(tree)):
            continue  # callers may pass it by name
        text = f"Rename variable '{name}' to '{better}' for clarity."
        yield _suggestion("rename_variable", text, code, _renamed(code, tree, name, better), 0.9)
        used.add(better)


def _short_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """One-letter variables, with a better name from what they hold."""
    seen: set[str] = set()
    for node in ast.walk(tree):
        target, value = None, None
        if isinstance(node, ast.For | ast.comprehension):
            target, better = node.target, _name_for_item(node.iter)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            better = _name_for_value(value)
        else:
            continue
        if isinstance(target, ast.Name) and len(target.id) == 1 and target.id != "_" and target.id not in seen:
            seen.add(target.id)
            yield target.id, better


def _name_for_item(iterated: ast.expr) -> str:
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range":
        return "index"
    if isinstance(iterated, ast.Name) and iterated.id.endswith("s") and len(iterated.id) > 2:
        return iterated.id[:-1]
    return "item"


def _name_for_value(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        return "total" if value.value == 0 else "number"
    if isinstance(value, ast.List | ast.ListComp):
        return "items"
    return "value"


def _renamed(code: str, tree: ast.Module, name: str, better: str) -> str:
    places = sorted(
        ((n.lineno, n.col_offset) for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name), reverse=True
    )
    lines = [line.encode() for line in code.splitlines(keepends=True)]
    for number, column in places:
        line = lines[number - 1]
        lines[number - 1] = line[:column] + better.encode() + line[column + len(name.encode()) :]
    return b"".join(lines).decode()


# -- methods to extract -------------------------------------------------------------------------------


def _extractions(code: str, tree: ast.Module) -> Iterator[dict[str, Any]]:
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        block = _block(function)
        if block is None:
            continue
        name = f"calculate_{_outputs(function, block)[0]}" if _outputs(function, block) else f"{function.name}_part"
        after = _extracted(code, function, block, name)
        text = f"Extract the selected block into a new method '{name}'."
        yield _suggestion("extract_method", text, code, after, 0.85)


def _block(function: ast.FunctionDef) -> list[ast.stmt] | None:
    """The longest run of statements of a function that can be extracted."""
    best: list[ast.stmt] = []
    run: list[ast.stmt] = []
    for statement in function.body:
        leaves = any(isinstance(node, _LEAVES) for node in ast.walk(statement))
        nested = isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
        documents = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        run = [] if leaves or nested or documents else [*run, statement]
        best = max(best, run, key=_length)
    return best if _length(best) >= 3 and len(best) < len(function.body) else None


def _length(statements: list[ast.stmt]) -> int:
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def _names(nodes: list[ast.stmt], kind: type[ast.expr_context]) -> list[str]:
    found = (n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind))
    return list(dict.fromkeys(found))


def _inputs(function: ast.FunctionDef, block: list[ast.stmt]) -> list[str]:
    arguments = [item.arg for item in ast.walk(function.args) if isinstance(item, ast.arg)]
    before = function.body[: function.body.index(block[0])]
    known = {*arguments, *_names(before, ast.Store)}
    updated = [
        n.target.id
        for s in block
        for n in ast.walk(s)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    ]
    return [name for name in dict.fromkeys([*_names(block, ast.Load), *updated]) if name in known]


def _outputs(function: ast.FunctionDef, block: list[ast.stmt]) -> list[str]:
    behind = function.body[function.body.index(block[-1]) + 1 :]
    used = set(_names(behind, ast.Load))
    return [name for name in _names(block, ast.Store) if name in used]


def _extracted(code: str, function: ast.FunctionDef, block: list[ast.stmt], name: str) -> str:
    lines = code.splitlines(keepends=True)
    inputs, outputs = ", ".join(_inputs(function, block)), ", ".join(_outputs(function, block))
    first, last = block[0].lineno - 1, block[-1].end_lineno or block[-1].lineno
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    body = textwrap.indent(textwrap.dedent("".join(lines[first:last])), "    ")
    method = [f"def {name}({inputs}):\n", body if body.endswith("\n") else f"{body}\n"]
    if outputs:
        method.append(f"    return {outputs}\n")
    call = f"{indent}{outputs} = {name}({inputs})\n" if outputs else f"{indent}{name}({inputs})\n"
    at = function.lineno - 1
    return "".join([*lines[:at], *method, "\n\n", *lines[at:first], call, *lines[last:]])
