"""Modules look down: no ring of imports, and no long chain, lazy and type-checking ones counted."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src"
LONGEST = 14


def module_files() -> dict[str, Path]:
    found = {}
    for file in sorted((ROOT / "fedmerdel").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = file
    return found


def imports_of(name: str, source: str, known: set[str]) -> set[str]:
    """The project's modules that a module imports, wherever in it: the deepest that is named."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        named: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        ours = [module for module in named if module in known and module != name]
        found |= {m for m in ours if not any(other.startswith(f"{m}.") for other in ours)}
    return found


def edges() -> dict[str, set[str]]:
    files = module_files()
    return {name: imports_of(name, file.read_text(), set(files)) for name, file in files.items()}


def longest_chain(graph: dict[str, set[str]]) -> list[str]:
    """The longest way down; raises where it would never end."""
    above: list[str] = []

    @cache
    def chain(name: str) -> tuple[str, ...]:
        assert name not in above, f"a ring of imports: {[*above[above.index(name) :], name]}"
        above.append(name)
        below = max((chain(each) for each in sorted(graph[name])), key=len, default=())
        above.pop()
        return (name, *below)

    return list(max((chain(name) for name in graph), key=len))


def test_no_ring_and_no_long_chain() -> None:
    chain = longest_chain(edges())
    assert len(chain) <= LONGEST, chain


def test_a_ring_is_found() -> None:
    source = "def f():\n    from fedmerdel.a import g\n"
    assert imports_of("fedmerdel.b", source, {"fedmerdel.a", "fedmerdel.b"}) == {"fedmerdel.a"}
    with pytest.raises(AssertionError, match="a ring"):
        longest_chain({"a": {"b"}, "b": {"c"}, "c": {"b"}})


def test_no_test_module_imports_another() -> None:
    for file in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith("tests.test_"), f"{file.name}: {node.module}"
