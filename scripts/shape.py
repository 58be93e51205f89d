"""Measures the shape of the source: complexity, repeated names, large constructors, late imports, ids without a row.

scripts/shape.py [ROOT]      prints a table; compare it before and after a change
"""

from __future__ import annotations

import ast
import gc
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import requirement_ids

MAX_COMPLEXITY = 12


@cache
def trees(root: Path) -> tuple[tuple[Path, ast.Module], ...]:
    """Every file of the source, parsed; the garbage collector would look at all of it again and again."""
    gc.disable()
    paths = sorted((root / "src").rglob("*.py"))
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def complex_functions(root: Path) -> int:
    """Functions above the limit, as ruff counts them, suppressed or not."""
    config = f"lint.mccabe.max-complexity={MAX_COMPLEXITY}"
    command = ["ruff", "check", "--isolated", "--select", "C901", "--ignore-noqa", "--output-format", "json"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:], "--config", config, str(root / "src")],
        capture_output=True,
        text=True,
        check=False,
    )
    return len(json.loads(done.stdout or "[]"))


def repeated_class_names(root: Path) -> list[str]:
    names = Counter(node.name for _, tree in trees(root) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def functions(root: Path) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in trees(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    counted = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len([argument for argument in counted if argument.arg not in ("self", "cls")]) + (given.vararg is not None)


def largest_constructors(root: Path) -> list[tuple[int, str]]:
    found = []
    for path, tree in trees(root):
        for owner in ast.walk(tree):
            if not isinstance(owner, ast.ClassDef):
                continue
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    found.append((parameters(node), f"{path.stem}.{owner.name}"))
    return sorted(found, reverse=True)[:3]


def module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(node: ast.Import | ast.ImportFrom, path: Path, root: Path) -> set[str]:
    """The modules that a statement may load, as dotted names."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    package = path.relative_to(root / "src").parts[:-1]
    base = (
        ".".join([*package[: len(package) + 1 - node.level], *filter(None, [node.module])])
        if node.level
        else node.module
    )
    return {str(base), *(f"{base}.{alias.name}" for alias in node.names)}


def core_modules(root: Path) -> set[str]:
    """The modules that every installation has: those of Python, and of the dependencies outside the extras."""
    wanted = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    core = {requirement_name(line) for line in wanted}
    installed = metadata.packages_distributions().items()
    return set(sys.stdlib_module_names) | {
        module for module, owners in installed if any(requirement_name(owner) in core for owner in owners)
    }


def requirement_name(line: str) -> str:
    return re.split(r"[^\w.-]", line, maxsplit=1)[0].lower().replace("_", "-")


def late_imports(root: Path) -> list[str]:
    """Imports inside functions that no extra explains: neither its modules, nor ours which load them."""
    graph: dict[str, set[str]] = {}
    late: list[tuple[str, set[str]]] = []
    for path, tree in trees(root):
        inner = {
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        late += [(f"{path.relative_to(root)}:{node.lineno}", imported(node, path, root)) for node in inner]
        graph[module_of(path, root)] = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom) and node not in inner
            for name in imported(node, path, root)
        }
    core = core_modules(root)

    def is_extra(name: str, seen: set[str]) -> bool:
        if name in seen:
            return False
        seen.add(name)
        if name in graph:
            return any(is_extra(other, seen) for other in graph[name])
        top = name.partition(".")[0]
        return top != "sabir" and top not in core

    return sorted(place for place, names in late if not any(is_extra(name, set()) for name in names))


CONTEXT = ("services", "house")  # how doors name what the gateway gives them, and how they did before
ENDPOINTS = ("bus", "health", "metrics", "metrics_group", "protected", "web", "well_known")  # never were doors


def door_files(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path, tree in trees(root):
        if "door" in path.parts or (path.parent.name == "doors" and path.stem not in ENDPOINTS):
            yield path, tree


def steps_from_context(node: ast.expr) -> tuple[str, ...]:
    """The attributes after the context: ``self.services.guard.rights`` has two."""
    steps: list[str] = []
    while isinstance(node, ast.Attribute):
        if node.attr.lstrip("_") in CONTEXT:
            return tuple(reversed(steps))
        steps.append(node.attr)
        node = node.value
    return tuple(reversed(steps)) if isinstance(node, ast.Name) and node.id in CONTEXT else ()


def door_paths(root: Path) -> Counter[tuple[str, ...]]:
    """Every path that doors take through their context, with its uses."""
    found: Counter[tuple[str, ...]] = Counter()
    for _, tree in door_files(root):
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and id(node) not in inner and (steps := steps_from_context(node)):
                found[steps] += 1
    return found


def widest(root: Path) -> str:
    """How much the doors of each protocol use of their context, the most first."""
    used: dict[str, set[str]] = {}
    for path, tree in door_files(root):
        protocol = path.parts[path.parts.index("door") - 1] if "door" in path.parts else path.stem.partition("_")[0]
        found = (steps_from_context(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        used.setdefault(protocol, set()).update(steps[0] for steps in found if steps)
    counted = sorted(((len(members), protocol) for protocol, members in used.items() if members), reverse=True)
    return ", ".join(f"{protocol} {count}" for count, protocol in counted)


NAMED = ("each", "most", "wrong", "told", "tell", "bury")  # CONTRIBUTING.md, Names
VAGUE = frozenset({*NAMED, "_told", "_tell"})


def vague_names(parsed: Iterable[ast.Module]) -> int:
    """Uses of names that say nothing of what they hold."""
    found = 0
    for tree in parsed:
        for node in ast.walk(tree):
            named = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "name", None)
            found += isinstance(named, str) and named in VAGUE
    return found


def trees_beside_source(root: Path) -> Iterator[ast.Module]:
    """The other Python files of the repository, one at a time."""
    for folder in ("tests", "bench", "examples", "scripts"):
        for path in (root / folder).rglob("*.py"):
            yield ast.parse(path.read_text(encoding="utf-8"))


SEARCH = ("search", "agents/site", "agents/site_*.py", "agents/site.py", "agents/sites.py")
NEW = (  # packages that did not exist at 383a8bb
    "protocols/acl", "dialogues", "agents/llm", "agents/ensemble", "tools", "massgen", "testing", "web",
    "cli/acl_options.py", "cli/bench.py", "cli/chat.py", "cli/completion.py", "cli/config.py", "cli/dev.py",
    "cli/ide.py", "cli/inbox.py", "cli/init.py", "cli/live_view.py", "cli/run.py", "cli/send.py", "cli/status.py",
    "conformance/acl.py", "federation/directory_acl.py", "federation/listing_acl.py", "observe/timeline.py",
)  # fmt: skip


def lines_of_source(root: Path) -> str:
    """The lines of all files, and of the three parts: search, what was added since 383a8bb, and the rest."""
    package = root / "src" / "sabir"
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in package.rglob("*.py")}

    def belongs(path: Path, places: tuple[str, ...]) -> bool:
        inside = path.relative_to(package)
        return any(inside.match(place) or inside.is_relative_to(place) for place in places)

    search = sum(count for path, count in counts.items() if belongs(path, SEARCH))
    new = sum(count for path, count in counts.items() if belongs(path, NEW))
    total = sum(counts.values())
    return f"{total} (core {total - search - new}, search {search}, packages added since 383a8bb {new})"


def ids_without_a_row(root: Path) -> list[str]:
    return requirement_ids.without_a_row(root)


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    named_told = sum(function.name == "_told" for _, function in functions(root))
    repeated = repeated_class_names(root)
    missing = ids_without_a_row(root)
    print(f"functions above complexity {MAX_COMPLEXITY}: {complex_functions(root)}")
    print(f"class names used more than once: {len(repeated)}  {', '.join(repeated)}")
    print(f"functions named _told: {named_told}")
    print(f"largest constructors: {', '.join(f'{name} {count}' for count, name in largest_constructors(root))}")
    late = late_imports(root)
    print(f"imports inside functions, but for extras: {len(late)}  {', '.join(late)}")
    paths = door_paths(root)
    through = sorted(".".join(path) for path in paths if len(path) > 2)
    print(f"paths of doors through two services: {len(through)}  {', '.join(through)}")
    print(f"members of the context that the doors of one protocol use: {widest(root)}")
    print(f"names that say nothing ({', '.join(NAMED)}): {vague_names(tree for _, tree in trees(root))}")
    print(f"names that say nothing, in tests, benches, examples and scripts: {vague_names(trees_beside_source(root))}")
    print(f"ids without a row: {len(missing)}  {', '.join(missing[:12])}")
    print(f"lines of source: {lines_of_source(root)}")


if __name__ == "__main__":
    main()
