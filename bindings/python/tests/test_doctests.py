"""Runs the examples in the docstrings, and those of the pages, and finds what has no docstring."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import firndb
import pytest

ROOT = Path(__file__).parents[3]
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF
PAGES = [page for page in [ROOT / "docs/python.md", ROOT / "README.md"] if page.is_file()]


def modules() -> Iterator[ModuleType]:
    """The modules of the package. `__main__` is a program: importing it would run it."""
    yield firndb
    for info in pkgutil.walk_packages(firndb.__path__, "firndb."):
        if not info.name.endswith(".__main__"):
            yield importlib.import_module(info.name)


def members(owner: ModuleType | type) -> Iterator[tuple[str, Any]]:
    """What a module or class defines itself, by its full name. `doctest` has such a search, but
    does not find the properties of native classes."""
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    prefix = module if isinstance(owner, ModuleType) else f"{module}.{owner.__qualname__}"
    for name, value in vars(owner).items():
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(owner, ModuleType) and getattr(value, "__module__", None) != module:
            continue
        yield f"{prefix}.{name}", value
        if inspect.isclass(value) and value.__module__ == module and value is not owner:
            yield from members(value)


def examples() -> dict[str, doctest.DocTest]:
    """The docstrings with examples, by the name of what they describe."""
    parser, found = doctest.DocTestParser(), {}
    for module in modules():
        for name, value in [(module.__name__, module), *members(module)]:
            text = getattr(value, "__doc__", None)
            if isinstance(text, str) and ">>>" in text:
                text = inspect.cleandoc(text)
                found[name] = parser.get_doctest(text, {"firndb": firndb}, name, None, 0)
    return found


EXAMPLES = examples()


def check(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    output: list[str] = []
    runner.run(test, out=output.append, clear_globs=False)
    assert runner.failures == 0, "".join(output)
    assert runner.tries > 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(EXAMPLES[name])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page share their names and an empty directory."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.finditer(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        code, line = block[1], page.read_text()[: block.start(1)].count("\n")
        if ">>>" in code:
            name = f"{page.name}:{line + 1}"
            parsed = doctest.DocTestParser().get_examples(code)
            check(doctest.DocTest(parsed, names, name, str(page), line, code))
            continue
        # Empty lines before it make the line numbers of errors those of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)


def undocumented() -> Iterator[str]:
    for name in firndb.__all__:
        value = getattr(firndb, name)
        if not (inspect.isclass(value) or callable(value)):
            continue
        if not inspect.getdoc(value):
            yield name
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            is_shown = not method.startswith("_") and not isinstance(member, type)
            is_api = callable(member) or inspect.isdatadescriptor(member)
            # `__slots__` and annotations have nothing to say: their class describes them.
            is_api = is_api and not inspect.ismemberdescriptor(member)
            if is_shown and is_api and not inspect.getdoc(getattr(value, method)):
                yield f"{name}.{method}"


def native() -> Iterator[str]:
    """The classes of the module `_native` are bases of those that users see."""
    for name, value in members(importlib.import_module("firndb._native")):
        short = name.rpartition(".")[2]
        described = callable(value) or inspect.isdatadescriptor(value)
        if not short.startswith("_") and described and not getattr(value, "__doc__", None):
            yield name


def test_everything_that_users_see_has_a_docstring() -> None:
    assert [*undocumented(), *native()] == []
