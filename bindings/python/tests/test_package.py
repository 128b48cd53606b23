"""The installed package: `python -m firndb`, what a wheel contains, and the build backend."""

import base64
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import firndb
import pytest
from firndb import __main__ as program

PROJECT = Path(__file__).parents[1]
FIRN = Path(sysconfig.get_path("scripts"), "firn")
WHEEL = os.environ.get("FIRNDB_TEST_WHEEL")

with_firn = pytest.mark.skipif(not FIRN.is_file(), reason="firn was not built (cargo build)")
with_wheel = pytest.mark.skipif(WHEEL is None, reason="not installed by `cargo xtask wheel`")


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "firndb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=60)


@with_firn
def test_the_module_runs_firn() -> None:
    direct = subprocess.run([FIRN, "--version"], capture_output=True, text=True)
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, direct.stdout, "")
    assert firndb.__version__ in done.stdout


@with_firn
def test_exit_status_and_streams_are_those_of_firn(tmp_path: Path) -> None:
    wrong = run("no-such-verb")
    direct = subprocess.run([FIRN, "no-such-verb"], capture_output=True, text=True)
    assert wrong.returncode == direct.returncode != 0
    assert wrong.stderr == direct.stderr
    table = str(tmp_path / "t.table")
    arguments = ["table", "build", "-", "--format", "tsv", "--key", "k", "--output", table]
    built = run(*arguments, stdin="k\tv\nkey\tvalue\n")
    assert built.returncode == 0, built.stderr
    assert run("table", "get", table, "key").stdout == "value\n"


@with_firn
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_firn(number: signal.Signals, tmp_path: Path) -> None:
    """firn replaces the interpreter: it has its process id, and gets its signals."""

    def ends(*command: str | Path) -> int:
        table = tmp_path / "t.table"
        arguments = [*command, "table", "build", "-", "--separator", "=", "--output", table]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(arguments, stdin=pipe, stderr=none) as process:
            assert process.stdin is not None
            # Larger than a pipe: when all is written, firn has started and has read most of it.
            process.stdin.write(b"".join(b"%d=value\n" % i for i in range(100_000)))
            process.stdin.flush()
            process.send_signal(number)
            return process.wait(timeout=60)

    assert ends(sys.executable, "-m", "firndb") == ends(FIRN) != 0


def test_a_missing_firn_is_an_error_that_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "candidates", lambda: iter([tmp_path]))
    (tmp_path / "firn").write_text("not executable")
    assert program.find() is None
    with pytest.raises(SystemExit, match=re.escape(f"in none of {tmp_path}: reinstall")):
        program.main()
    (tmp_path / "firn").chmod(0o755)
    assert program.find() == tmp_path / "firn"


def test_programs_are_looked_for_where_installers_put_them() -> None:
    found = list(program.candidates())
    assert Path(sysconfig.get_path("scripts")) in found
    assert Path(firndb.__file__).parents[1] / "bin" in found  # pip install --target
    assert Path(sys.prefix, "bin") in found


def test_importing_the_package_imports_no_optional_package() -> None:
    code = (
        "import sys, firndb\n"
        "optional = {'duckdb', 'numpy', 'pandas', 'polars', 'pyarrow', 'tqdm'}\n"
        "sys.exit(', '.join(optional & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@with_wheel
def test_the_wheel_has_the_package_and_firn_and_nothing_else() -> None:
    assert WHEEL is not None
    with zipfile.ZipFile(WHEEL) as wheel:
        assert wheel.testzip() is None
        names = set(wheel.namelist())
        info = f"firndb-{firndb.__version__}.dist-info"
        script = f"firndb-{firndb.__version__}.data/scripts/firn"
        assert {script, f"{info}/licenses/LICENSE", "firndb/_native.abi3.so"} <= names
        assert {"firndb/py.typed", "firndb/_native.pyi", "firndb/__main__.py"} <= names
        expected = re.compile(rf"firndb/[\w/]+\.pyi?|firndb/py\.typed|{re.escape(info)}/.*")
        others = {name for name in names if not expected.fullmatch(name)}
        assert {name for name in others if "sbom" not in name} == {
            script,
            "firndb/_native.abi3.so",
        }
        assert not {name for name in names if "test" in name.lower()}
        assert wheel.getinfo(script).external_attr >> 16 & 0o777 == 0o755
        check_record(wheel, f"{info}/RECORD")
        metadata = wheel.read(f"{info}/METADATA").decode()
    assert "Requires-Dist: tqdm" in metadata and "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    if sys.platform == "linux":
        assert re.search(r"-cp311-abi3-manylinux_2_\d+_\w+\.whl$", WHEEL)


def check_record(wheel: zipfile.ZipFile, record: str) -> None:
    lines = [line.rsplit(",", 2) for line in wheel.read(record).decode().splitlines()]
    assert sorted(name for name, _, _ in lines) == sorted(wheel.namelist())
    for name, digest, size in lines:
        if name != record:
            content = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            assert (digest, int(size)) == (f"sha256={expected.decode()}", len(content))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """The build backend, with a maturin that only has the names."""
    maturin = types.ModuleType("maturin")
    for verb in ["build_wheel", "build_editable"]:
        setattr(maturin, verb, None)
        setattr(maturin, f"get_requires_for_{verb}", None)
        setattr(maturin, f"prepare_metadata_for_{verb}", None)
    monkeypatch.setitem(sys.modules, "maturin", maturin)
    spec = importlib.util.spec_from_file_location("build_backend", PROJECT / "build_backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec.loader.exec_module(module)
    yield module


def test_the_backend_is_the_one_of_the_project(backend: types.ModuleType) -> None:
    build = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]
    assert build["build-backend"] == "build_backend" and build["backend-path"] == ["."]
    assert all(hasattr(backend, name) for name in backend.__all__)


def test_a_source_distribution_is_refused(backend: types.ModuleType, tmp_path: Path) -> None:
    assert backend.get_requires_for_build_sdist() == []
    with pytest.raises(backend.UnsupportedOperation, match="pip install bindings/python"):
        backend.build_sdist(str(tmp_path))


def test_another_target_is_for_both_builds(backend: types.ModuleType) -> None:
    with pytest.raises(SystemExit, match="CARGO_BUILD_TARGET"):
        backend.build_wheel("dist", {"build-args": "--release --target x"})


@pytest.mark.parametrize(
    ("tags", "needs", "expected"),
    [
        ("cp311-abi3-manylinux_2_34_x86_64", [17, 34], "cp311-abi3-manylinux_2_34_x86_64"),
        ("cp311-abi3-manylinux_2_17_x86_64", [17, 34], "cp311-abi3-manylinux_2_34_x86_64"),
        (
            "cp311-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64",
            [28],
            "cp311-abi3-manylinux_2_28_aarch64",
        ),
        (
            "cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64",
            [17],
            "cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64",
        ),
        ("cp311-abi3-linux_x86_64", [34], "cp311-abi3-linux_x86_64"),
        ("cp311-abi3-macosx_11_0_arm64", [], "cp311-abi3-macosx_11_0_arm64"),
    ],
)
def test_a_program_that_needs_a_newer_glibc_changes_the_tag(
    backend: types.ModuleType, tags: str, needs: list[int], expected: str
) -> None:
    content = b"".join(b"\0GLIBC_2.%d\0GCC_3.0\0" % minor for minor in needs)
    assert backend.raised(tags, content + b"GLIBC_2.99 in a text") == expected


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_the_glibc_that_a_program_needs_is_found(backend: types.ModuleType) -> None:
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("objdump is not installed")
    file = Path(sys.executable).resolve()
    out = subprocess.run([objdump, "-T", file], capture_output=True, text=True, check=True)
    expected = {int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", out.stdout)}
    assert expected and set(backend.glibc_minors(file.read_bytes())) >= expected
    assert max(backend.glibc_minors(file.read_bytes())) == max(expected)


def test_the_program_is_added_to_a_wheel(backend: types.ModuleType, tmp_path: Path) -> None:
    wheel = tmp_path / "firndb-9.9.9-cp311-abi3-manylinux_2_17_x86_64.whl"
    info = "firndb-9.9.9.dist-info"
    tag = "Root-Is-Purelib: false\nTag: cp311-abi3-manylinux_2_17_x86_64\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("firndb/__init__.py", "")
        archive.writestr(f"{info}/WHEEL", tag)
        archive.writestr(f"{info}/METADATA", "Name: firndb\n\nText.\n\nMore.\n")
        archive.writestr(f"{info}/RECORD", "old")
    firn = tmp_path / "firn"
    firn.write_bytes(b"\x7fELF\0GLIBC_2.34\0")
    made = backend.add_program(wheel, firn)
    assert made.name == "firndb-9.9.9-cp311-abi3-manylinux_2_34_x86_64.whl"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["firn", made.name]
    with zipfile.ZipFile(made) as archive:
        check_record(archive, f"{info}/RECORD")
        assert archive.read(f"{info}/WHEEL").decode() == tag.replace("2_17", "2_34")
        metadata = archive.read(f"{info}/METADATA").decode()
        assert metadata == "Name: firndb\nLicense-File: LICENSE\n\nText.\n\nMore.\n"
        script = archive.getinfo("firndb-9.9.9.data/scripts/firn")
        assert archive.read(script) == firn.read_bytes()
        assert script.external_attr >> 16 == 0o100755
        assert b"Apache License" in archive.read(f"{info}/licenses/LICENSE")
