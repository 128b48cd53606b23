"""Builds the package: maturin makes the wheel, and this adds the command line `firn` to it.

maturin does not put a program beside a library for Python, so this module stands between pip and
maturin (PEP 517). It builds `firn` with cargo first, lets maturin build the rest, and adds the
program, its licence, and lines for both in the wheel's `RECORD`.

Both builds use the same profile and target directory. The first also names the library's package,
so that cargo chooses the features of shared dependencies for both: the second build compiles
nothing again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
Settings: TypeAlias = Mapping[str, str | list[str]] | None


class UnsupportedOperation(Exception):
    """What PEP 517 names the refusal to make a source distribution."""


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel and returns its file name."""
    firn = build_firn(config_settings)
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return add_program(Path(wheel_directory, name), firn).name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel that refers to the Python files here, for `pip install --editable`."""
    firn = build_firn(config_settings)
    name = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    return add_program(Path(wheel_directory, name), firn).name


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Nothing: see `build_sdist`."""
    return []


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Refuses: the package is built from the repository, of which it needs most."""
    raise UnsupportedOperation(
        "firndb has no source distribution: build a wheel (`pip wheel bindings/python`), or "
        "install from a clone of the repository (`pip install bindings/python`)"
    )


def build_firn(config_settings: Settings) -> Path:
    """Builds the command line, and returns the program."""
    if "--target" in str((config_settings or {}).values()):
        raise SystemExit("name another target with CARGO_BUILD_TARGET: it is for firn as well")
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        raise SystemExit("cargo is not on PATH: install Rust from https://rustup.rs")
    command = [cargo, "build", "--release", "--locked", "--message-format=json-render-diagnostics"]
    command += ["--package", "firndb-cli", "--package", "firndb-python", "--bin", "firn"]
    target = os.environ.get("CARGO_BUILD_TARGET")
    print("Running", " ".join(command), f"for {target}" if target else "", flush=True)
    # In `HERE`, as maturin: configuration and toolchain of the repository apply.
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: firn was not built")
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "firn":
            return Path(message["executable"])
    raise SystemExit("cargo built no program `firn`")


def add_program(wheel: Path, firn: Path) -> Path:
    """Adds the program and the licence to a wheel. Returns its path, with a new name if the program
    needs a newer glibc than the library."""
    with zipfile.ZipFile(wheel) as archive:
        entries = {info.filename: (info, archive.read(info)) for info in archive.infolist()}
    record = next(name for name in entries if name.endswith(".dist-info/RECORD"))
    del entries[record]
    info = record.removesuffix("/RECORD")
    for name, mode, file in [
        (f"{info.removesuffix('.dist-info')}.data/scripts/firn", 0o755, firn),
        (f"{info}/licenses/LICENSE", 0o644, ROOT / "LICENSE"),
    ]:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (stat.S_IFREG | mode) << 16
        entries[name] = (entry, file.read_bytes())
    tags = wheel.stem.split("-", 2)[2]
    new_tags = raised(tags, firn.read_bytes())
    path = wheel.with_name(f"{wheel.stem.removesuffix(tags)}{new_tags}.whl")
    temporary = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w") as archive:
        lines = []
        for name, (entry, content) in entries.items():
            if name == f"{info}/WHEEL":
                content = content.replace(tags.encode(), new_tags.encode())
            if name == f"{info}/METADATA":
                head, end, rest = content.partition(b"\n\n")
                content = head + b"\nLicense-File: LICENSE" + end + rest
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            lines.append(f"{name},sha256={digest.decode()},{len(content)}")
        archive.writestr(record, "\n".join([*lines, f"{record},,", ""]))
    wheel.unlink()
    temporary.rename(path)
    return path


def raised(tags: str, program: bytes) -> str:
    """The tags of a wheel after `program` was added. maturin finds the oldest glibc that the
    library runs with (`manylinux_2_34_x86_64`); a program that needs a newer one raises it.
    Other tags (`linux_x86_64` of a local build, macOS) remain."""
    found = re.search(r"manylinux_2_(\d+)_", tags)
    if found is None:
        return tags
    minor = max([int(found[1]), *glibc_minors(program)])
    if minor == int(found[1]):
        return tags
    # A compressed set of tags (`manylinux_2_17_x86_64.manylinux2014_x86_64`) becomes the new one.
    python, abi, platforms = tags.split("-")
    machine = re.sub(r"^manylinux_2_\d+_", "", platforms.split(".")[0])
    return f"{python}-{abi}-manylinux_2_{minor}_{machine}"


def glibc_minors(program: bytes) -> list[int]:
    """The minor versions of glibc that a program needs: the names of symbol versions in it."""
    return [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", program)]


if __name__ == "__main__":
    sys.exit("this module is called by pip: pip install bindings/python")
