"""What the methods of a catalog return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

from firndb._stats import Stats, table_html
from firndb._times import from_micros

VersionKind: TypeAlias = Literal["table", "approximate table", "sharded table", "collection"]


@dataclass(frozen=True)
class VersionFile:
    """A file of a version.

    Attributes:
        name: the name in the source directory.
        size_bytes: the length.
        content: the content id in the footer, 32 hexadecimal digits.
        blake3: the BLAKE3 hash of all bytes, 64 hexadecimal digits.
        since: the number of the version that the file was stored for.
    """

    name: str
    size_bytes: int
    content: str
    blake3: str
    since: int


@dataclass(frozen=True)
class Version:
    """A published version of a table or collection.

    Attributes:
        name: the name it was published under.
        number: 1 for the first version of the name, then ascending by 1.
        id: identifies the publication, 32 hexadecimal digits.
        parent: the number of the version that was the newest before, or `None`.
        parent_id: its id, or `None`.
        restores: the number of the version whose files this one has, after a rollback.
        published: when, by the clock of the publisher.
        kind: `"table"`, `"approximate table"`, `"sharded table"` or `"collection"`.
        schema: the schema of a collection as TOML, or the value schema of a table.
        statistics: facts that the store reports, such as `records` or `documents`.
        labels: names and texts given by the publisher.
        files: the files, ordered by name.
        size_bytes: the length of all files.
    """

    name: str
    number: int
    id: str
    parent: int | None
    parent_id: str | None = field(repr=False)
    restores: int | None
    published: datetime
    kind: VersionKind
    schema: str | None = field(repr=False)
    statistics: Mapping[str, int] = field(hash=False)
    labels: Mapping[str, str] = field(hash=False)
    files: tuple[VersionFile, ...] = field(repr=False)
    size_bytes: int

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        values["published"] = from_micros(values.pop("published_micros"))
        values["files"] = tuple(VersionFile(**file) for file in values["files"])
        return cls(**values)

    def _repr_html_(self) -> str:
        rows: list[list[object]] = [
            ["name", self.name],
            ["number", self.number],
            ["published", self.published.isoformat(sep=" ", timespec="seconds")],
            ["kind", self.kind],
            ["files", f"{len(self.files):,}"],
            ["size_bytes", f"{self.size_bytes:,}"],
        ]
        if self.restores is not None:
            rows.append(["restores", self.restores])
        rows.extend([name, f"{value:,}"] for name, value in self.statistics.items())
        rows.extend([f"label {name}", text] for name, text in self.labels.items())
        return table_html(["", "Version"], rows)


@dataclass(frozen=True)
class Published:
    """The result of publishing a version.

    Attributes:
        version: the new version.
        sent_files: files that the version before did not have.
        sent_bytes: the length of these files. Files of the same file system are linked, not copied.
        repaired_files: files that were missing or damaged in the catalog and were stored again.
    """

    version: Version
    sent_files: int
    sent_bytes: int
    repaired_files: int

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        values["version"] = Version._of(values["version"])
        return cls(**values)


@dataclass(frozen=True)
class Staged:
    """A file that `Catalog.stage` has stored, and that belongs to no version yet.

    `str(staged)` is a line of JSON, which can be sent to the machine that publishes.

    Attributes:
        text: that line.
        name: the name that the file was staged for.
        object: the object in the catalog.
        file_name: the name of the source file.
        size_bytes: the length.
        blake3: the BLAKE3 hash of all bytes, 64 hexadecimal digits.
        kind: the kind of table.
        records: the number of records.
        schema: the value schema, or `None`.
    """

    text: str = field(repr=False)
    name: str
    object: str
    file_name: str
    size_bytes: int
    blake3: str
    kind: VersionKind
    records: int
    schema: str | None = field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Cleaned:
    """What a clean-up has removed, or would remove.

    Attributes:
        versions: the numbers of the versions, ascending.
        files: files that no version lists any more, or that interrupted publishers have left.
        removed_bytes: the length of those files that a removed version listed.
        staged_files: staged files, published or not.
    """

    versions: list[int]
    files: int
    removed_bytes: int
    staged_files: int


@dataclass(frozen=True)
class VersionChange:
    """A part that only one version has, or that differs between the two.

    Attributes:
        name: a partition, the file of a table, or `set` for the set file of a collection.
        before_bytes: the length in the first version, or `None`.
        after_bytes: the length in the second version, or `None`.
    """

    name: str
    before_bytes: int | None
    after_bytes: int | None


@dataclass(frozen=True)
class Diff:
    """The difference between two versions.

    Attributes:
        changes: the parts that differ, ordered by name.
        kept_files: files that both versions have.
        kept_bytes: the length of these files.
        new_bytes: the length of the files that only the second version has.
    """

    changes: tuple[VersionChange, ...]
    kept_files: int
    kept_bytes: int
    new_bytes: int

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        values["changes"] = tuple(VersionChange(**change) for change in values["changes"])
        return cls(**values)

    def _repr_html_(self) -> str:
        rows: list[list[object]] = [
            [change.name, _shown(change.before_bytes), _shown(change.after_bytes)]
            for change in self.changes
        ]
        return table_html(["part", "bytes before", "bytes after"], rows)


def _shown(size: int | None) -> str:
    return "" if size is None else f"{size:,}"


class ReaderStats(Stats):
    """Counters and state of a `CatalogReader`.

    Attributes:
        version: the number of the open version.
        newest: the newest version that the reader has found. If it is not the open version,
            `last_error` has the reason.
        swaps: how often the reader switched to a newer version.
        switched: when the open version became current.
        swap_age_seconds: the time since then.
        open_seconds: how long opening the files of the open version took, without fetching them.
        warm_seconds: how long warming it took.
        files: files that were fetched or linked.
        fetched_bytes: the length of these files.
        failures: how often `refresh` failed.
        last_error: the error of the last refresh, or `None` if it succeeded.
    """

    version: int
    newest: int
    swaps: int
    switched: datetime
    swap_age_seconds: float
    open_seconds: float
    warm_seconds: float
    files: int
    fetched_bytes: int
    failures: int
    last_error: str | None
