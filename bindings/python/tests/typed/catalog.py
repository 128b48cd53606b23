"""Types of catalogs, indexers and the asyncio facade, as programs of users see them."""

import asyncio
from typing import assert_type

import firndb
import firndb.aio

catalog = firndb.Catalog("catalog", create=True)
with firndb.Indexer("index", {"price": "i64"}) as index:
    with index.feed("rooms") as feed:
        feed.add("1", {"price": 80})
        feed.add(1, {"price": 80}) if index.closed else None  # type: ignore[arg-type]
    assert_type(feed.applied, firndb.Applied)
    assert_type(index.upsert("rooms", b"2", {"price": 75}), bool)
    assert_type(index.publish_to(catalog, "rooms").published, firndb.Published | None)
    assert_type(index.collection, firndb.Collection)

assert_type(catalog.publish("rooms", "index/collection"), firndb.Published)
assert_type(
    catalog.publish("rooms", "index/collection", if_changed=True), firndb.Published | None
)
assert_type(catalog.versions("rooms"), list[int])
assert_type(catalog.newest("rooms").labels["a"], str) if catalog.pins("rooms") else None
with catalog.reader("rooms", "cache") as reader:
    assert_type(reader.current, firndb.Generation)
    assert_type(reader.current.collection(), firndb.CollectionReader)
    assert_type(reader.refresh(), bool)
    assert_type(reader.stats().last_error, str | None)
    with reader.watch(0.5, lambda new: print(new.number)) as watch:
        assert_type(watch, firndb.Watch)


async def main() -> None:
    async with firndb.aio.open_log("log") as store:
        assert_type(store, firndb.aio.AsyncLogStore)
        assert_type(await store.put_many({"a": "1"}), int)
        assert_type(await store.delete("a"), bool)
        assert_type(await store.stats(), firndb.LogStats)
    async with firndb.aio.open_catalog("catalog") as names:
        assert_type(await names.names(), list[str])
        async with names.reader("rooms", "cache") as reader:
            assert_type(reader, firndb.aio.AsyncCatalogReader)
            assert_type(await reader.collection().count(), int)


asyncio.run(main())
