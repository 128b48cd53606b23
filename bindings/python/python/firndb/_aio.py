"""The base of the asyncio facade: calls in threads, and iterations."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, overload

from firndb._native import Array, Columns

Key: TypeAlias = bytes | bytearray | memoryview | str
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
A = TypeVar("A", bound="AsyncStore[Any]")
P = ParamSpec("P")
R = TypeVar("R")

# Threads of the default executor. Most calls wait for a disk.
_THREADS = 8
# Records that an iteration reads at a time, in one call of a thread.
_CHUNK = 256

_default: ThreadPoolExecutor | None = None


def _executor() -> ThreadPoolExecutor:
    global _default
    if _default is None:
        _default = ThreadPoolExecutor(_THREADS, thread_name_prefix="firndb-aio")
    return _default


def _forget_executor() -> None:
    global _default
    _default = None  # The threads exist in the parent only.


os.register_at_fork(after_in_child=_forget_executor)


def submit(
    executor: Executor | None, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> Future[R]:
    context = contextvars.copy_context()
    work = functools.partial(context.run, call, *args, **kwargs)
    return (executor or _executor()).submit(work)


def threaded(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[AsyncStore[S], P], Coroutine[Any, Any, R]]:
    """The form of a method that runs in a thread."""

    @functools.wraps(method)
    async def call(self: AsyncStore[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(method, self.sync_store, *args, **kwargs)

    purpose, _, _ = (method.__doc__ or "").partition("\n\n")
    call.__doc__ = f"{purpose}\n\nRuns in a thread: see `{method.__qualname__}`."
    call.__module__ = "firndb.aio"
    return call


class AsyncStore(Generic[S_co]):
    """The base of the asynchronous stores.

    Args:
        sync_store: the store that it calls. Both may be used.
        executor: its threads make the calls. By default 8 threads that all stores share.
    """

    def __init__(self, sync_store: S_co, *, executor: Executor | None = None) -> None:
        self._sync_store = sync_store
        self._executor = executor

    @property
    def sync_store(self) -> S_co:
        """The store that this one calls."""
        return self._sync_store

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return bool(getattr(self._sync_store, "closed", False))

    async def close(self) -> None:
        """Closes the store. Even if the task is cancelled meanwhile, the store is closed."""
        close = getattr(self._sync_store, "close", None)
        if close is not None:
            closing = submit(self._executor, close)
            await asyncio.shield(asyncio.wrap_future(closing))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._sync_store!r}>"

    async def _run(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.wrap_future(submit(self._executor, call, *args, **kwargs))

    async def _iterate(
        self, begin: Callable[[], Iterable[R]], at_a_time: int = _CHUNK
    ) -> AsyncIterator[R]:
        """Iterates in threads, some items at a time."""
        iterator: Iterator[R] = iter(await self._run(begin))
        while chunk := await self._run(lambda: list(itertools.islice(iterator, at_a_time))):
            for item in chunk:
                yield item


class Opening(Generic[A]):
    """A store that is being opened: `await` it, or use it in `async with`, which closes it."""

    def __init__(
        self, open_store: Callable[[], Any], wrap: Callable[..., A], executor: Executor | None
    ) -> None:
        self._open_store = open_store
        self._wrap = wrap
        self._executor = executor
        self._opened: A | None = None

    async def _open(self) -> A:
        opening = submit(self._executor, self._open_store)
        try:
            store = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_result)
            raise
        return self._wrap(store, executor=self._executor)

    def __await__(self) -> Generator[Any, None, A]:
        return self._open().__await__()

    async def __aenter__(self) -> A:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def _close_result(opening: Future[Any]) -> None:
    """Closes what was opened for a task that was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        close = getattr(opening.result(), "close", None)
        if close is not None:
            close()


class AsyncMapping(AsyncStore[S_co]):
    """What the asynchronous mappings have in common."""

    _is_in_memory = True

    @property
    def _mapping(self) -> Any:
        return self._sync_store

    async def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or `default`. From memory, without a thread, if the store can."""
        if self._is_in_memory:
            return self._mapping.get(key, default)
        return await self._run(self._mapping.get, key, default)

    async def contains(self, key: Key) -> bool:
        """Whether the store has a key."""
        if self._is_in_memory:
            return key in self._mapping
        found: bool = await self._run(self._mapping.__contains__, key)
        return found

    @overload
    async def get_many(
        self, keys: Any, default: Any = None, *, arrow: Literal[False] = False
    ) -> list[Any]: ...

    @overload
    async def get_many(
        self, keys: Any, default: Any = None, *, arrow: Literal[True]
    ) -> Array | Columns: ...

    async def get_many(self, keys: Any, default: Any = None, *, arrow: bool = False) -> Any:
        """The values of many keys, in the order of the keys, as a list or as Arrow data."""
        return await self._run(self._mapping.get_many, keys, default, arrow=arrow)

    def __len__(self) -> int:
        return len(self._mapping)

    def __bool__(self) -> bool:
        return True

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.keys()

    def keys(self) -> AsyncIterator[Any]:
        """Iterates over the keys."""
        return self._iterate(lambda: iter(self._mapping))

    def values(self) -> AsyncIterator[Any]:
        """Iterates over the values."""
        return self._iterate(lambda: iter(self._mapping.values()))

    def items(self) -> AsyncIterator[tuple[Any, Any]]:
        """Iterates over the pairs of key and value."""
        return self._iterate(lambda: iter(self._mapping.items()))


class AsyncRecords(AsyncMapping[S_co]):
    """What log stores and their snapshots have in common: ranges of keys."""

    def range(
        self, start: Key | None = None, end: Key | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[Any, Any]]:
        """Iterates over the items of a range of keys, in their order: see `LogStore.range`."""
        return self._iterate(lambda: self._mapping.range(start, end, reverse=reverse))

    def prefix(self, prefix: Key, *, reverse: bool = False) -> AsyncIterator[tuple[Any, Any]]:
        """Iterates over the items whose keys begin with `prefix`: see `LogStore.prefix`."""
        return self._iterate(lambda: self._mapping.prefix(prefix, reverse=reverse))


class AsyncBlock(AsyncStore[S_co]):
    """Something whose block ends in a thread."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        block: Any = self._sync_store
        # Shielded, so that the block of a cancelled task has ended when its store is used again.
        leave = submit(self._executor, block.__exit__, kind, error, traceback)
        await asyncio.shield(asyncio.wrap_future(leave))
