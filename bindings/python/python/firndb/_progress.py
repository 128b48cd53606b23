"""Progress bars of long calls, in terminals and notebooks."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

ProgressFunction: TypeAlias = Callable[[int, int | None], object]
Progress: TypeAlias = bool | ProgressFunction | None
# How long a call takes before its bar appears, in seconds.
_DELAY = 0.5


def _is_watched() -> bool:
    """Whether a person sees the output: a terminal, or a notebook."""
    if sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


@contextlib.contextmanager
def reporting(progress: Progress, what: str, unit: str) -> Iterator[ProgressFunction | None]:
    """Yields the function that a long call reports its progress to, or `None`.

    `progress` is a function of what is done and the total (`None` if unknown), `True` for a bar,
    `False` for nothing, and by default a bar if a person sees it.
    """
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _is_watched()):
        yield None
        return
    # Only a call that takes long gets a bar, unless one is wanted, and pays for the import.
    visible_from = time.monotonic() + (0.0 if progress else _DELAY)
    bar: Any = None

    def show(done: int, total: int | None) -> None:
        nonlocal bar
        if bar is None:
            if time.monotonic() < visible_from:
                return
            with warnings.catch_warnings():
                # A notebook without ipywidgets gets a bar of text, which is good enough.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm

            bar = tqdm(desc=what, unit=unit, unit_scale=True, leave=False)
        if total is not None and bar.total != total:
            bar.reset(total)
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()
