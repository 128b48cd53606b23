"""Catalogs: publishing, listing, cleaning up, and refusing what is wrong."""

import contextlib
import datetime
import gc
import json
import os
import pickle
import shutil
import signal
import threading
import time
from pathlib import Path

import firndb
import pytest

SCHEMA = firndb.Schema.from_toml('[fields]\ncity = "string full"\nprice = "i64 full"\n')


@pytest.fixture
def index(tmp_path: Path):
    with firndb.Indexer(tmp_path / "index", SCHEMA, partition_by="city") as index:
        add(index, "1", "Oslo", 1)
        add(index, "2", "Bergen", 2)
        yield index


@pytest.fixture
def catalog(tmp_path: Path) -> firndb.Catalog:
    return firndb.Catalog(tmp_path / "catalog", create=True)


def add(index: firndb.Indexer, key: str, city: str, price: int) -> None:
    index.upsert("rooms", key, {"city": city, "price": price})
    index.publish()


def source(index: firndb.Indexer) -> str:
    return os.path.join(index.path, "collection")


def test_versions_are_published_listed_and_compared(index, catalog) -> None:
    assert catalog.names() == []
    before = datetime.datetime.now(datetime.UTC)
    first = catalog.publish("rooms", source(index), labels={"from": "a <test>"})
    assert (first.version.number, first.sent_files, first.repaired_files) == (1, 3, 0)
    assert first.sent_bytes == first.version.size_bytes
    version = catalog.newest("rooms")
    assert version == first.version == catalog.version("rooms", 1)
    assert before <= version.published <= datetime.datetime.now(datetime.UTC)
    assert version.kind == "collection" and version.parent is None
    assert version.statistics["documents"] == 2 and version.labels == {"from": "a <test>"}
    assert [file.since for file in version.files] == [1, 1, 1]
    assert "a &lt;test&gt;" in version._repr_html_() and "number=1" in repr(version)
    assert pickle.loads(pickle.dumps(version)) == version
    assert catalog.publish("rooms", source(index), if_changed=True) is None
    add(index, "3", "Oslo", 3)
    second = catalog.publish("rooms", source(index), if_changed=True)
    assert second is not None and second.version.parent == 1
    assert (second.sent_files, catalog.versions("rooms")) == (2, [1, 2])
    diff = catalog.diff("rooms", 1)
    assert [change.name for change in diff.changes] == ["Oslo", "set"]
    assert (diff.kept_files, diff.new_bytes) == (1, second.sent_bytes)
    assert diff == catalog.diff("rooms", first.version, second.version)
    assert "Oslo" in diff._repr_html_()


def test_a_rollback_is_a_new_version(index, catalog) -> None:
    first = catalog.publish("rooms", source(index)).version
    add(index, "3", "Oslo", 3)
    catalog.publish("rooms", source(index))
    third = catalog.rollback("rooms", 1, labels={"why": "wrong"}).version
    assert (third.number, third.restores, third.labels) == (3, 1, {"why": "wrong"})
    assert {file.blake3 for file in third.files} == {file.blake3 for file in first.files}
    assert catalog.rollback("rooms", third).version.number == 4
    with pytest.raises(firndb.NotFoundError, match="no version 9"):
        catalog.rollback("rooms", 9)


def test_clean_ups_keep_recent_and_pinned_versions(index, catalog) -> None:
    for price in range(5):
        add(index, "1", "Oslo", price)
        catalog.publish("rooms", source(index))
    catalog.pin("rooms", 2, "audit")
    assert catalog.pins("rooms") == [2]
    with pytest.raises(firndb.AlreadyExistsError):
        catalog.pin("rooms", 2)
    assert catalog.clean("rooms", keep=1).versions == [], "all are younger than a day"
    planned = catalog.clean("rooms", keep=2, grace=0, dry_run=True)
    assert planned.versions == [1, 3] and catalog.versions("rooms") == [1, 2, 3, 4, 5]
    time.sleep(0.01)
    cleaned = catalog.clean("rooms", keep=2, grace=datetime.timedelta(microseconds=1))
    assert (cleaned.versions, cleaned.files) == ([1, 3], planned.files)
    assert cleaned.removed_bytes == planned.removed_bytes > 0
    catalog.unpin("rooms", 2)
    catalog.unpin("rooms", 2)
    assert catalog.clean("rooms", keep=1, grace=0).versions == [2, 4]
    catalog.verify("rooms")


def test_a_pull_copies_a_version_and_replaces_nothing(index, catalog, tmp_path) -> None:
    catalog.publish("rooms", source(index))
    calls: list[tuple[int, int | None]] = []
    version = catalog.pull("rooms", tmp_path / "copy", progress=lambda *call: calls.append(call))
    assert calls[-1] == (version.size_bytes, version.size_bytes)
    names = {file.name for file in version.files}
    assert names <= set(os.listdir(tmp_path / "copy"))
    catalog.pull("rooms", tmp_path / "copy", version)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="mine"):
        catalog.pull("rooms", tmp_path / "other")
    assert os.listdir(tmp_path / "other") == ["mine"]


def test_damage_is_found_and_repaired(index, catalog, tmp_path) -> None:
    version = catalog.publish("rooms", source(index)).version
    checked = catalog.verify("rooms", 1)
    assert (checked.files, checked.bytes) == (3, version.size_bytes)
    objects = sorted((tmp_path / "catalog/rooms/files").iterdir())
    damaged = bytearray(objects[0].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    objects[0].unlink()
    objects[0].write_bytes(damaged)
    with pytest.raises(firndb.CorruptError) as caught:
        catalog.verify("rooms")
    assert caught.value.path is not None and objects[0].name in caught.value.path
    with pytest.raises(firndb.CorruptError):
        catalog.reader("rooms", tmp_path / "cache")
    repaired = catalog.publish("rooms", source(index), verify=True)
    assert repaired.repaired_files == 1
    assert catalog.verify("rooms").files == 3


def test_hostile_manifests_are_refused(index, catalog, tmp_path) -> None:
    catalog.publish("rooms", source(index))
    manifest = next((tmp_path / "catalog/rooms/versions").iterdir())
    text = manifest.read_text()
    manifest.chmod(0o644)
    hostile = [
        "",
        "{}",
        "[" * 100_000,
        text[:-20],
        text.replace('"documents": 2', '"documents": 3'),
        text.replace('"name": "rooms"', '"name": "other"'),
        text.replace('"format": 1', '"format": 99'),
    ]
    for content in hostile:
        manifest.write_text(content)
        for call in (
            lambda: catalog.newest("rooms"),
            lambda: catalog.verify("rooms"),
            lambda: catalog.pull("rooms", tmp_path / "copy"),
            lambda: catalog.reader("rooms", tmp_path / "cache"),
        ):
            with pytest.raises(firndb.CorruptError):
                call()
    assert json.loads(text)["version"] == 1


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a b", "x" * 101, "\x00", "\u00e9"])
def test_names_are_checked(name: str, index, catalog) -> None:
    for call in (
        lambda: catalog.publish(name, source(index)),
        lambda: catalog.newest(name),
        lambda: catalog.versions(name),
        lambda: catalog.clean(name),
        lambda: catalog.pin(name, 1),
    ):
        with pytest.raises(ValueError, match="cannot be a name in a catalog"):
            call()
    assert catalog.names() == []


@pytest.mark.parametrize(
    ("location", "error", "message"),
    [
        ("absent", FileNotFoundError, "absent"),
        ("ftp://host/catalog", firndb.InvalidArgumentError, "s3://BUCKET/PREFIX"),
        ("s3://user:secret@bucket/catalog", firndb.InvalidArgumentError, "environment"),
        ("https://host/a?b=c", firndb.InvalidArgumentError, "leave out"),
    ],
)
def test_locations_are_checked(tmp_path, monkeypatch, location, error, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as caught:
        firndb.Catalog(location)
    assert "secret" not in str(caught.value)


def test_hdfs_needs_a_feature() -> None:
    location = "hdfs://name-node:8020/catalog"
    try:
        assert firndb.Catalog(location).location == location  # Built with the feature.
    except firndb.InvalidArgumentError as error:
        assert "HDFS" in str(error)


def test_a_foreign_directory_is_refused(tmp_path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(firndb.AlreadyExistsError):
        firndb.Catalog(tmp_path, create=True)
    assert os.listdir(tmp_path) == ["mine"]


def test_wrong_arguments(index, catalog, tmp_path) -> None:
    with pytest.raises(TypeError):
        firndb.Catalog(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        catalog.publish("rooms", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        catalog.publish("rooms", source(index), labels={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="label"):
        catalog.publish("rooms", source(index), labels={"a": "x" * 5000})
    with pytest.raises(FileNotFoundError):
        catalog.publish("rooms", tmp_path / "absent")
    with pytest.raises(ValueError):
        catalog.publish("rooms", os.devnull)
    with pytest.raises(firndb.NotFoundError, match="nothing is published under the name `x`"):
        catalog.newest("x")
    with pytest.raises(OverflowError):
        catalog.version("rooms", -1)
    with pytest.raises(ValueError, match="keep is at least 1"):
        catalog.clean("rooms", keep=0)
    for grace, error in ((-1, ValueError), ("1d", TypeError), (float("nan"), ValueError)):
        with pytest.raises(error, match="grace"):
            catalog.clean("rooms", grace=grace)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads"):
        catalog.pull("rooms", tmp_path / "copy", threads=0)
    assert catalog.names() == []


def test_an_exception_of_the_progress_function_is_raised(index, catalog, tmp_path) -> None:
    def fail(done: int, total: int | None) -> None:
        raise ZeroDivisionError

    catalog.publish("rooms", source(index))
    for call in (
        lambda: catalog.verify("rooms", progress=fail),
        lambda: catalog.pull("rooms", tmp_path / "copy", progress=fail),
    ):
        with pytest.raises(ZeroDivisionError):
            call()


def test_ctrl_c_interrupts_a_publication(catalog, tmp_path) -> None:
    with firndb.Indexer(tmp_path / "big", SCHEMA, partitions=500) as index:
        index.apply("a", ((str(n), {"city": "x", "price": n}) for n in range(2_000)))
        index.publish()
        path = source(index)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        while True:  # Several, if one takes less than that.
            catalog.publish("big", copy, verify=True)
    with contextlib.suppress(firndb.NotFoundError):
        catalog.verify("big")
    assert catalog.publish("big", copy).version.number == catalog.versions("big")[-1]


def test_catalogs_are_values(catalog, tmp_path) -> None:
    copy = pickle.loads(pickle.dumps(catalog))
    assert copy == catalog and hash(copy) == hash(catalog) and copy.names() == []
    assert repr(catalog) == f"firndb.Catalog({str(tmp_path / 'catalog')!r})"
    assert firndb.Catalog(str(tmp_path / "catalog")) == catalog
    assert catalog != tmp_path
    web = firndb.Catalog("http://user:secret@127.0.0.1:9/catalog")
    assert "secret" not in repr(web) and "secret" in pickle.loads(pickle.dumps(web))._location
    del web
    gc.collect()
