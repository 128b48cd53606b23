"""Log records: openings, builds, backups, compactions and queries go to `logging`.

The loggers are `firndb.log`, `firndb.table`, `firndb.search`, `firndb.catalog` and `firndb.index`.
Queries have the level DEBUG, all others INFO. A record has the attributes `operation`, `fields` and
`duration`, in seconds. What no logger is enabled for is not captured, and costs nothing.

A thread hands the records over, since the threads of the library must not wait for the GIL. It runs
only while a logger is enabled, and ends with the interpreter after it has handed over all records.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Any

from firndb import _native

_NAMES = ("firndb", *(f"firndb.{part}" for part in ("log", "table", "search", "catalog", "index")))
# How long the end of the interpreter waits for handlers.
_PATIENCE = 5.0

_thread: threading.Thread | None = None
_is_over = False


class _Levels(dict[int, bool]):
    """The cache of enabled levels of a logger, which `logging` clears after every change of a
    level: this is how a change is noticed."""

    def clear(self) -> None:
        super().clear()
        apply_levels()


def apply_levels() -> None:
    """Captures what the loggers are enabled for now."""
    global _thread
    if _is_over:
        return
    level = min(logging.getLogger(name).getEffectiveLevel() for name in _NAMES)
    level = max(level, logging.root.manager.disable + 1)
    captured = 2 if level <= logging.DEBUG else 1 if level <= logging.INFO else 0
    if captured and _thread is None:
        _thread = threading.Thread(target=_hand_over, name="firndb-logging", daemon=True)
        _thread.start()
    _native._log_capture(captured)


def watch() -> None:
    """Follows the levels of the loggers from now on."""
    logging.getLogger(_NAMES[0])._cache = _Levels()  # type: ignore[attr-defined]
    atexit.register(_end)
    os.register_at_fork(after_in_child=_start_again)
    apply_levels()


def _hand_over() -> None:
    while (taken := _native._log_next()) is not None:
        records, dropped = taken
        for name, is_debug, fields, duration, created in records:
            _hand_over_one(name, is_debug, fields, duration, created)
        if dropped:
            logging.getLogger("firndb").warning(
                "%d log records were dropped: the handlers are too slow", dropped
            )


def _hand_over_one(
    name: str, is_debug: bool, fields: str, duration: float, created: float
) -> None:
    part, _, operation = name.rpartition(".")
    logger = logging.getLogger(part)
    level = logging.DEBUG if is_debug else logging.INFO
    if not logger.isEnabledFor(level):
        return
    text = f"{operation} {fields}" if fields else operation
    extra: dict[str, Any] = {"operation": operation, "fields": fields, "duration": duration}
    arguments = (text, duration * 1e3)
    record = logger.makeRecord(
        part, level, "(firndb)", 0, "%s took %.3f ms", arguments, None, operation, extra
    )
    record.created = created
    record.msecs = created % 1 * 1000
    try:
        logger.handle(record)
    except Exception:  # A filter or handler of the program: the thread has to go on.
        if logging.lastResort is not None:
            logging.lastResort.handleError(record)


def _end() -> None:
    global _is_over
    _is_over = True
    _native._log_stop()
    if _thread is not None:
        _thread.join(_PATIENCE)


def _start_again() -> None:
    """In a forked child, which has no thread."""
    global _thread
    _thread = None
    _native._log_forked()
    apply_levels()
