"""The asyncio facade."""

import asyncio
import contextvars
import datetime
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import firndb
import firndb.aio
import pytest

SCHEMA = firndb.Schema.from_toml('[fields]\nprice = "i64 full"\n')


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(limited())


def test_a_log_store(tmp_path) -> None:
    async def main() -> None:
        async with firndb.aio.open_log(tmp_path / "s", decode=True) as store:
            assert await store.put_many({str(n): str(n * n) for n in range(1000)}) == 1000
            await store.put("a", "1", ttl=datetime.timedelta(hours=1))
            assert await store.get("a") == "1" and await store.get("b", "no") == "no"
            assert await store.contains("a") and not await store.contains("b")
            assert await store.get_many(["31", "b"]) == ["961", None]
            array = await store.get_many(["31", "b"], arrow=True)
            assert len(array) == 2
            assert isinstance(await store.expiry("a"), datetime.datetime)
            assert await store.delete("a") and not await store.delete("a")
            assert len(store) == 1000
            assert [key async for key in store] == list(store.sync_store)
            assert {key: value async for key, value in store.items()} == dict(store.sync_store)
            assert len([value async for value in store.values()]) == 1000
            async with await store.snapshot() as snapshot:
                await store.clear()
                assert await snapshot.get("31") == "961" and len(snapshot) == 1000
                assert (await snapshot.get_many(["30"])) == ["900"]
            stats = await store.stats()
            assert stats.keys == 0
            async with store.batch(sync=True) as batch:
                batch.put("x", "1")
                batch.put("y", "2")
                assert len(store) == 0
            assert len(store) == 2
            with pytest.raises(ZeroDivisionError):
                async with store.batch() as batch:
                    batch.put("z", "3")
                    raise ZeroDivisionError
            assert not await store.contains("z")
            assert "AsyncLogStore" in repr(store) and store
        assert store.closed
        with pytest.raises(ValueError, match="closed"):
            await store.put("a", "1")
        with pytest.raises(firndb.NotFoundError):
            await firndb.aio.open_log(tmp_path / "absent", "r")

    run(main())


def test_tables(tmp_path) -> None:
    rows = {f"key {n}": str(n) for n in range(1000)}

    async def main() -> None:
        async with firndb.aio.build_table(rows, tmp_path / "t") as table:
            assert len(table) == 1000
        for access in ("map", "resident", "buffered", "direct"):
            async with firndb.aio.open_table(tmp_path / "t", access=access) as table:
                assert await table.get("key 7") == b"7" and await table.get("x") is None
                assert await table.contains("key 7")
                assert await table.get_many(["key 8"]) == [b"8"]
                assert len([key async for key in table.keys()]) == 1000
                assert (await table.verify()).records == 1000
                assert (await table.to_arrow()).num_rows == 1000
        async with firndb.aio.build_table(rows, tmp_path / "o", order="key") as table:
            found = [key async for key, _ in table.range("key 99", "key 992")]
            assert found == [b"key 99", b"key 990", b"key 991"]
            found = [item async for item in table.prefix("key 12", reverse=True)]
            assert found[0] == (b"key 129", b"129") and len(found) == 11
        built = firndb.aio.build_approximate_table([("a", b"1")], tmp_path / "a", value_width=1)
        async with built as approximate:
            assert await approximate.get("a") == b"1" and len(approximate) == 1
            assert await approximate.get_many(["a"]) == [b"1"]
        (tmp_path / "shards").mkdir()
        await firndb.aio.build_table(rows, tmp_path / "shards/shard-00000.table")
        async with firndb.aio.open_sharded_table(tmp_path / "shards") as sharded:
            assert await sharded.get("key 7") == b"7"

    run(main())


def test_a_catalog_an_index_and_a_reader(tmp_path) -> None:
    async def main() -> None:
        async with (
            firndb.aio.open_indexer(tmp_path / "index", SCHEMA, partitions=2) as index,
            firndb.aio.open_catalog(tmp_path / "catalog", create=True) as catalog,
        ):

            async def publish(price: int) -> None:
                assert await index.upsert("rooms", str(price), {"price": price})
                assert (await index.publish_to(catalog, "rooms")).published

            await publish(1)
            assert await catalog.names() == ["rooms"]
            reader = await catalog.reader("rooms", tmp_path / "cache")
            assert reader.current.number == 1 and not await reader.refresh()
            seen: list[int] = []

            async def follow() -> None:
                async for generation in reader.changes(interval=0.005):
                    seen.append(generation.number)

            following = asyncio.create_task(follow())
            for price in (2, 3):
                await publish(price)
                while not seen or seen[-1] != price:
                    await asyncio.sleep(0.005)
            assert seen == [2, 3]
            assert await reader.collection().count() == 3
            assert [g async for g in reader.changes(timeout=0.01, interval=0.001)] == []
            await reader.close()
            await following
            version = await catalog.newest("rooms")
            assert (await catalog.verify("rooms", version)).files == len(version.files)
            source = os.path.join(index.sync_store.path, "collection")
            assert await catalog.publish("rooms", source, if_changed=True) is None
            async with index.feed("other") as feed:
                await feed.add_many((str(n), {"price": n}) for n in range(100))
                with pytest.raises(firndb.InvalidArgumentError):
                    await feed.add("x", {"price": "cheap"})
            assert feed.applied.added == 100
            with pytest.raises(ZeroDivisionError):
                async with index.changes("other") as changes:
                    await changes.remove("1")
                    raise ZeroDivisionError
            assert (await index.status()).sources == {"rooms": 3, "other": 100}

    run(main())


def test_a_collection(tmp_path) -> None:
    rows = [{"id": n, "city": "Oslo" if n % 2 else "Bergen"} for n in range(100)]

    async def main() -> None:
        async with firndb.aio.build_collection(rows, path=tmp_path / "c") as collection:
            assert len(collection) == 100 and collection
            counts = await asyncio.gather(*(collection.count(f"id < {n}") for n in range(100)))
            assert counts == list(range(100))
            assert [hit["id"] for hit in await collection.search(firndb.F.id < 3)] == [0, 1, 2]
            batches = [len(hits) async for hits in collection.scan("id < 25", batch_rows=10)]
            assert batches == [10, 10, 5]
            facets = await collection.facets(None, "city")
            assert facets["city"].as_dict() == {"Oslo": 50, "Bergen": 50}
            reader = collection.reader()
            async with collection.change() as change:
                await change.put("more", [{"id": 100, "city": "Oslo"}])
            assert (len(collection), await reader.count()) == (101, 100)
            with pytest.raises(ZeroDivisionError):
                async with collection.change() as change:
                    await change.remove("more")
                    raise ZeroDivisionError
            with pytest.raises(firndb.InvalidArgumentError):
                await collection.count("no = 1")
        async with firndb.aio.open_collection(tmp_path / "c") as collection:
            assert len(collection) == 101 and not await collection.refresh()
            assert (await collection.verify()).records == 101

    run(main())


def test_many_calls_at_once(tmp_path) -> None:
    async def main() -> None:
        async with firndb.aio.open_log(tmp_path / "s") as store:

            def add(old: bytes | None) -> str:
                return str(int(old or 0) + 1)

            await asyncio.gather(*(store.update(f"key {n % 10}", add) for n in range(500)))
            values = await store.get_many([f"key {n}" for n in range(10)])
            assert values == [b"50"] * 10

    run(main())


def test_the_event_loop_goes_on_while_a_call_waits(tmp_path) -> None:
    async def main() -> None:
        async with firndb.aio.open_log(tmp_path / "s") as store:
            ticks = 0
            is_waiting = threading.Event()

            def wait(old: bytes | None) -> None:
                is_waiting.set()
                time.sleep(0.2)

            update = asyncio.create_task(store.update("a", wait))
            while not update.done():
                ticks += 1
                await asyncio.sleep(0.001)
            assert is_waiting.is_set() and ticks > 10

    run(main())


def test_an_executor_can_be_given(tmp_path) -> None:
    names: list[str] = []
    variable = contextvars.ContextVar("variable", default="unset")
    values: list[str] = []

    def note(old: bytes | None) -> None:
        names.append(threading.current_thread().name)
        values.append(variable.get())

    async def main() -> None:
        variable.set("set")
        with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
            async with firndb.aio.open_log(tmp_path / "s", executor=executor) as store:
                await store.update("a", note)
            async with firndb.aio.AsyncLogStore(firndb.LogStore(tmp_path / "s")) as store:
                await store.update("a", note)

    run(main())
    assert [name.rpartition("_")[0] for name in names] == ["mine", "firndb-aio"]
    assert values == ["set", "set"]


def test_a_cancelled_task_leaves_nothing_open(tmp_path) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            gate = threading.Event()
            executor.submit(gate.wait, 30)

            async def use() -> None:
                async with firndb.aio.open_log(tmp_path / "s", executor=executor):
                    raise AssertionError("it is cancelled before")

            # Cancelled before its thread begins, and at various moments of its work.
            task = asyncio.create_task(use())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.set()
        for delay in range(30):
            with ThreadPoolExecutor(1) as executor:
                opening = firndb.aio.open_log(tmp_path / "s", executor=executor)

                async def hold(opening=opening) -> None:
                    async with opening as store:
                        await store.put_many({str(n): "x" for n in range(1000)})
                        await asyncio.sleep(60)

                task = asyncio.create_task(hold())
                await asyncio.sleep(delay / 1000)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            firndb.LogStore(tmp_path / "s").close()  # Would be locked.

    run(main())


def test_a_cancelled_feed_is_discarded(tmp_path) -> None:
    async def main() -> None:
        async with firndb.aio.open_indexer(tmp_path / "index", SCHEMA) as index:

            async def feed() -> None:
                async with index.feed("rooms") as feed:
                    for n in range(1_000_000):
                        await feed.add(str(n), {"price": n})

            task = asyncio.create_task(feed())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await index.status()).sources == {}
            assert await index.upsert("rooms", "1", {"price": 1})

    run(main())


def test_a_forked_child_has_threads_of_its_own(tmp_path) -> None:
    code = """
        import asyncio, os, sys, warnings
        import firndb.aio
        warnings.simplefilter("ignore", DeprecationWarning)

        async def main(path):
            async with firndb.aio.open_log(path) as store:
                await store.put("a", "1")
                return await store.get_many(["a"])

        asyncio.run(main("parent"))
        if os.fork() == 0:
            assert asyncio.run(main("child")) == [b"1"]
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        assert asyncio.run(main("parent")) == [b"1"]
        print("end")
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_forms_are_documented() -> None:
    for name in firndb.aio.__all__:
        value = getattr(firndb.aio, name)
        assert value.__doc__, name
        members = vars(value).items() if isinstance(value, type) else ()
        for method, member in members:
            if not method.startswith("_") and callable(member):
                assert member.__doc__, f"{name}.{method}"
    assert "Runs in a thread: see `LogStore.put_many`" in firndb.aio.AsyncLogStore.put_many.__doc__


def test_wrong_arguments(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(TypeError):
            await firndb.aio.open_log(7)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await firndb.aio.open_log(tmp_path / "s", unknown=1)
        with pytest.raises(FileNotFoundError):
            await firndb.aio.open_table(tmp_path / "absent")

    run(main())
