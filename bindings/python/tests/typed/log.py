"""Log stores, as type checkers see them."""

from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import firndb


def main() -> None:
    with firndb.LogStore("store", decode=True, durability="os") as store:
        assert_type(store, firndb.LogStore)
        store["key"] = b"value"
        store.put("key", "value", ttl=timedelta(hours=1))
        store.put("key", "value", expiry=datetime.now(UTC) + timedelta(days=1), sync=False)
        assert_type(store.get_many(["key"]), list[Any])
        assert_type(store.get_many(["key"], arrow=True), firndb.Array)
        assert_type(store.put_many({"a": b"b"}), int)
        assert_type(store.delete("a"), bool)
        assert_type(store.expiry("key"), datetime | None)
        assert_type(store.stats().keys, int)
        store.update("key", lambda old: old)
        store.update({"a": "b"}, c="d")
        with store.batch(sync=True) as batch:
            assert_type(batch, firndb.Batch)
            batch["a"] = "1"
        with store.snapshot() as snapshot:
            assert_type(snapshot, firndb.Snapshot)
            assert isinstance(snapshot, Mapping)
        assert isinstance(store, MutableMapping)
        store[1] = b"value"  # type: ignore[index]


def misuse(store: firndb.LogStore) -> None:
    store.put("key", 5)  # type: ignore[arg-type]
    store.put("key", "value", 5)  # type: ignore[call-arg]
    store.get_many(["key"], b"default", arrow=True)  # type: ignore[call-overload]
    firndb.LogStore("store", "a")  # type: ignore[arg-type]
    firndb.LogStore("store", access="mmap")  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        main()
    except TypeError:
        pass  # The last line, which mypy refuses too.
    else:
        raise AssertionError("a key of a wrong type was accepted")
