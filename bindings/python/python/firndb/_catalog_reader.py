"""Readers of catalogs, and the threads that watch for new versions."""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, Self, TypeAlias, TypeVar

from firndb import _native
from firndb._catalog_values import ReaderStats
from firndb._native import Generation
from firndb._times import Duration, from_micros, seconds

if TYPE_CHECKING:
    from firndb._catalog import Catalog

TableAccess: TypeAlias = Literal["map", "resident", "buffered", "direct"]
OnChange: TypeAlias = Callable[[Generation], object]
OnError: TypeAlias = Callable[[Exception], object]

T = TypeVar("T")

_log = logging.getLogger("firndb.catalog")


class CatalogReader(_native.CatalogReader):
    """Keeps a version of a name open, and switches to newer versions.

    A reader fetches the next version, checks every byte, opens it next to the current one, and
    only then switches. If anything fails, the current version stays in use. Any number of threads
    may use a reader; `current` never waits.

    Args:
        catalog: the catalog.
        name: the name.
        cache_dir: a directory for the files, for this reader alone: missing, empty, or that of an
            earlier reader, whose files are used again. A reader that has run before starts without
            its catalog.
        version: open this version and no other. By default the newest and its successors.
        access: how tables are read: `"map"`, `"resident"` (a copy in memory), `"buffered"` or
            `"direct"`.
        warm: `True` makes opening and `refresh` prepare everything that queries would prepare,
            `False` nothing; by default `refresh` prepares for the next version what queries have
            used of the current one.
        bundle_limit_bytes: memory for small partitions that are merged, per version; 256 MiB by
            default.
        cache_bytes: limit for the files of the open version and the next one together.
        threads: how many files are fetched at the same time.

    Raises:
        NotFoundError: nothing is published under the name, or there is no such version.
        LockedError: another reader uses the directory.
        AlreadyExistsError: the directory has other contents.

    Examples:
        >>> table = firndb.build_table({"Oslo": "cold"}, "1.table")
        >>> catalog = firndb.Catalog("catalog", create=True)
        >>> published = catalog.publish("weather", "1.table")
        >>> reader = catalog.reader("weather", "cache")
        >>> old = reader.current  # one version, as long as it is held
        >>> table = firndb.build_table({"Oslo": "mild"}, "2.table")
        >>> published = catalog.publish("weather", "2.table")
        >>> reader.refresh()
        True
        >>> old.number, reader.current.number
        (1, 2)
        >>> old.table()["Oslo"], reader.current.table()["Oslo"]
        (b'cold', b'mild')
        >>> reader.close()
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        cache_dir: str | os.PathLike[str],
        *,
        version: int | None = None,
        access: TableAccess = "map",
        warm: bool | None = None,
        bundle_limit_bytes: int | None = None,
        cache_bytes: int | None = None,
        threads: int = 8,
    ) -> None:
        # `__new__` has taken the arguments.
        self._watches: set[Watch] = set()
        self._is_ended = threading.Event()

    def stats(self) -> ReaderStats:
        """Counters and state.

        Raises:
            ValueError: the reader is closed.
            FailedError: in a forked child.
        """
        values = self._stats()
        values["switched"] = from_micros(values["switched"])
        values["fetched_bytes"] = values.pop("bytes")
        return ReaderStats(values)

    def watch(
        self,
        interval: Duration = 1.0,
        on_change: OnChange | None = None,
        on_error: OnError | None = None,
    ) -> Watch:
        """Starts a thread that calls `refresh` periodically.

        Args:
            interval: the time between two calls: seconds or a `timedelta`. The actual pause is
                0.75 to 1.25 times as long, so that readers do not call at the same moment.
            on_change: called in that thread with each generation that the reader has switched to.
                An exception that it raises is logged, and the thread goes on.
            on_error: called in that thread with the exception of each failed refresh. By default
                an error is logged, as a warning, when it differs from the one before.

        Returns:
            a context manager, whose block is followed by `Watch.stop`. Without a block the thread
            ends when the reader is closed or no longer used, and when the interpreter exits.

        Examples:
            >>> table = firndb.build_table({"Oslo": "cold"}, "1.table")
            >>> catalog = firndb.Catalog("catalog", create=True)
            >>> published = catalog.publish("weather", "1.table")
            >>> with catalog.reader("weather", "cache") as reader:
            ...     with reader.watch(0.5, lambda new: print("version", new.number)):
            ...         reader.current.table()["Oslo"]
            b'cold'
        """
        pause = seconds(interval, "interval")
        if pause == 0:
            raise ValueError("interval is more than 0 seconds")
        for name, function in (("on_change", on_change), ("on_error", on_error)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} is a function, not {type(function).__name__}")
        seen = self.current.number
        watch = Watch(self, pause, seen, on_change, on_error)
        self._watches.add(watch)
        return watch

    def changes(
        self,
        timeout: Duration | None = None,
        *,
        interval: Duration = 1.0,
        on_error: OnError | None = None,
    ) -> Iterator[Generation]:
        """Iterates over the generations that the reader switches to from now on.

        Calls `refresh` periodically in the thread that iterates. Ends when the reader is closed.

        Args:
            timeout: end when no new version has come for this time: seconds or a `timedelta`. By
                default never.
            interval: the time between two calls, as in `watch`.
            on_error: as in `watch`.
        """
        patience = None if timeout is None else seconds(timeout, "timeout")
        pause = seconds(interval, "interval")
        return self._changes(self.current, patience, pause, on_error)

    def _changes(
        self, last: Generation, patience: float | None, pause: float, on_error: OnError | None
    ) -> Iterator[Generation]:
        report = _ErrorReport(self.name, on_error)
        since = time.monotonic()
        while not self.closed:
            _refresh(self, report, self._is_ended)
            try:
                current = self.current
            except ValueError:
                return
            if current is not last and current.number != last.number:
                last = current
                yield current
                since = time.monotonic()
                continue
            left = pause * random.uniform(0.75, 1.25)
            if patience is not None:
                left = min(left, since + patience - time.monotonic())
                if left <= 0:
                    return
            self._is_ended.wait(left)

    def close(self) -> None:
        """Stops the watches and closes the reader, and releases its directory.

        Generations that are still held stay open. A `refresh` in another thread ends with an
        error. Closing again does nothing.
        """
        self._is_ended.set()
        watches = list(self._watches)
        for watch in watches:
            watch._stop.set()
        self._close()
        for watch in watches:
            watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<CatalogReader of {self.name!r}: closed>"
        return f"<CatalogReader of {self.name!r}: version {self.current.number}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CatalogReader owns its directory: open one in each process")


class Watch:
    """The thread of `CatalogReader.watch`, as a context manager."""

    def __init__(
        self,
        reader: CatalogReader,
        interval: float,
        seen: int,
        on_change: OnChange | None,
        on_error: OnError | None,
    ) -> None:
        self._stop = threading.Event()
        # A weak reference: a reader without other users is closed, and the thread ends.
        self._reader = weakref.ref(reader, lambda _: self._stop.set())
        self._interval = interval
        self._seen = seen
        self._on_change = on_change
        self._report = _ErrorReport(reader.name, on_error)
        # A daemon, because the interpreter would wait for others before it calls `_stop_all`.
        self._thread = threading.Thread(
            target=self._run, name=f"firndb-watch-{reader.name}", daemon=True
        )
        _running.add(self)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stops the thread, and waits for it. The reader stays open, with its version.

        A refresh that is in progress is completed first. After this, no function is called any
        more, unless it is this thread that calls `stop`.
        """
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        reader = self._reader()
        if reader is not None:
            reader._watches.discard(self)
        _running.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._interval * random.uniform(0.75, 1.25)):
            reader = self._reader()
            if reader is None or not self._look(reader):
                return
            del reader

    def _look(self, reader: CatalogReader) -> bool:
        """Looks for a new version. Returns whether the thread goes on."""
        _refresh(reader, self._report, self._stop)
        try:
            current = reader.current
        except ValueError:
            return False  # Closed.
        if current.number != self._seen and not self._stop.is_set():
            self._seen = current.number
            _call(self._on_change, current)
        return True


class _ErrorReport:
    """Reports the errors of refreshes."""

    def __init__(self, name: str, on_error: OnError | None) -> None:
        self._name = name
        self._on_error = on_error
        self._last: str | None = None

    def success(self) -> None:
        self._last = None

    def failure(self, error: Exception) -> None:
        if self._on_error is not None:
            _call(self._on_error, error)
        elif self._last != str(error):
            _log.warning("%s: %s; the open version stays in use", self._name, error)
        self._last = str(error)


def _refresh(reader: CatalogReader, report: _ErrorReport, is_ended: threading.Event) -> None:
    try:
        reader.refresh()
    except Exception as error:
        # At the end, calls are interrupted.
        if not is_ended.is_set():
            report.failure(error)
    else:
        report.success()


def _call(function: Callable[[T], object] | None, argument: T) -> None:
    """Calls a function of the user, whose exceptions must not end the thread."""
    try:
        if function is not None:
            function(argument)
    except Exception:
        _log.exception("a function that was given to a watch has failed")


_running: weakref.WeakSet[Watch] = weakref.WeakSet()


def _stop_all() -> None:
    """Ends the threads before the interpreter is finalized."""
    watches = list(_running)
    for watch in watches:
        watch._stop.set()
        reader = watch._reader()
        if reader is not None:
            reader._interrupt()
    for watch in watches:
        watch.stop()


atexit.register(_stop_all)
# The threads exist in the parent only.
os.register_at_fork(after_in_child=_running.clear)
