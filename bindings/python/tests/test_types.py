"""The type annotations: mypy in strict mode, and stubs compared with what is there at run time."""

import os
import subprocess
import sys
from pathlib import Path

import firndb
import pytest

HERE = Path(__file__).parent
PACKAGE = Path(firndb.__file__).parent
# Kept between runs: mypy reads the types of pandas and polars for half a minute.
CACHE = Path(sys.prefix) / "mypy-cache"


def run(module: str, *arguments: str | Path) -> None:
    """Runs a tool, and shows what it printed if it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    # Without MYPYPATH the package is found as it is installed, with its `py.typed`.
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=HERE, env=environment, timeout=300
    )
    if done.returncode != 0:
        pytest.fail(f"{module} ended with {done.returncode}\n{done.stdout}{done.stderr}", False)


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    run("mypy", "--config-file", HERE / "mypy.ini", "--cache-dir", CACHE, "-p", "firndb")


def test_programs_of_users_are_typed() -> None:
    """`typed/` has programs with `assert_type`, and misuse that mypy must refuse."""
    programs = sorted((HERE / "typed").glob("*.py"))
    assert programs
    run("mypy", "--config-file", HERE / "mypy.ini", "--cache-dir", CACHE, *programs)


@pytest.mark.parametrize("program", sorted((HERE / "typed").glob("*.py")), ids=lambda p: p.stem)
def test_programs_of_users_run(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_stubs_describe_what_is_there() -> None:
    allowed = HERE / "stubtest-allowlist.txt"
    run("mypy.stubtest", "firndb", "--allowlist", allowed, "--mypy-config-file", HERE / "mypy.ini")
