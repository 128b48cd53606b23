"""`python -m firndb ARGUMENTS` runs the command line `firn` that was installed with the package."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import firndb


def candidates() -> Iterator[Path]:
    """Where installers put programs: beside the interpreter, in the user's directory, or beside the
    package (`pip install --target`)."""
    yield Path(sysconfig.get_path("scripts"))
    yield Path(sys.executable).parent
    yield Path(sysconfig.get_path("scripts", f"{os.name}_user"))
    site = Path(firndb.__file__).parents[1]
    yield site / "bin"
    # A prefix: lib/python3.11/site-packages is below it.
    yield from (parent / "bin" for parent in site.parents[:3])


def find() -> Path | None:
    """The program, or `None` if it is not installed."""
    programs = (folder / "firn" for folder in candidates())
    return next((p for p in programs if p.is_file() and os.access(p, os.X_OK)), None)


def main() -> None:
    """Replaces this process by `firn`: signals, standard streams and the exit status are its."""
    program = find()
    if program is None:
        folders = ", ".join(dict.fromkeys(map(str, candidates())))
        sys.exit(f"the program `firn` is in none of {folders}: reinstall the package firndb")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
