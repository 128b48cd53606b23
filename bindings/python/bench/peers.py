"""The other stores, filled with the same records."""

from __future__ import annotations

from pathlib import Path

import lmdb
import rocksdict

import firndb

Records = list[tuple[bytes, bytes]]
BATCH = 1000


def open_lmdb(path: Path) -> lmdb.Environment:
    """Without synchronisation of each commit, as the others."""
    return lmdb.open(str(path), map_size=1 << 34, sync=False, metasync=False, subdir=True)


def open_rocksdict(path: Path, bulk: bool = False) -> rocksdict.Rdict:
    """Raw mode: keys and values are bytes, and stay what they are."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    table = rocksdict.BlockBasedOptions()
    # The cache holds everything, and filters spare reads.
    table.set_block_cache(rocksdict.Cache(1 << 30))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    return rocksdict.Rdict(str(path), options)


def fill_lmdb(env: lmdb.Environment, records: Records) -> None:
    """One transaction for each batch."""
    for at in range(0, len(records), BATCH):
        with env.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(records[at : at + BATCH])


def fill_rocksdict(db: rocksdict.Rdict, records: Records) -> None:
    """One write batch for each batch."""
    for at in range(0, len(records), BATCH):
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in records[at : at + BATCH]:
            batch.put(key, value)
        db.write(batch)


def fill_firndb(store: firndb.LogStore, records: Records) -> None:
    """One call for each batch."""
    for at in range(0, len(records), BATCH):
        store.put_many(records[at : at + BATCH])


def fill_firndb_atomically(store: firndb.LogStore, records: Records) -> None:
    """One batch that is written as a whole for each batch, as the write batches of rocksdict."""
    for at in range(0, len(records), BATCH):
        with store.batch() as batch:
            batch.update(records[at : at + BATCH])
