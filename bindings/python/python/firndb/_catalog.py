"""Catalogs: versions of tables and collections, and readers that switch to new ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal, TypeAlias, overload

from firndb import _native
from firndb._catalog_reader import CatalogReader, TableAccess
from firndb._catalog_values import Cleaned, Diff, Published, Staged, Version
from firndb._progress import Progress, reporting
from firndb._stats import Verification
from firndb._times import Duration, seconds

AnyPath: TypeAlias = str | os.PathLike[str]

_DAY = timedelta(days=1)


class Catalog(_native.Catalog):
    """Versions of tables and collections under names, in a directory or an object store.

    A program publishes what it has built, and readers on the same machine or elsewhere switch to
    it while they answer queries. A version is complete or absent; it never changes.

    Calls that wait for a disk or a network run without the GIL, and Ctrl-C ends them.

    Args:
        location: a directory, `s3://BUCKET/PREFIX`, or, to read, `https://HOST/FOLDER`.
            Credentials for S3 come from the environment (`AWS_ACCESS_KEY_ID` and so on).
        create: create a missing directory. A directory with other contents is refused.

    Raises:
        NotFoundError: there is no such directory.
        AlreadyExistsError: the directory has contents that do not belong to a catalog.
        InvalidArgumentError: the location cannot be parsed.

    Examples:
        >>> table = firndb.build_table({"Oslo": "cold"}, "1.table")
        >>> catalog = firndb.Catalog("catalog", create=True)
        >>> published = catalog.publish("weather", "1.table", labels={"source": "station 7"})
        >>> published.version.number, published.sent_files
        (1, 1)
        >>> catalog.names(), catalog.versions("weather")
        (['weather'], [1])
        >>> with catalog.reader("weather", "cache") as reader:
        ...     reader.current.table()["Oslo"]
        b'cold'
    """

    __slots__ = ()

    def newest(self, name: str) -> Version:
        """The newest version of a name.

        Raises:
            NotFoundError: nothing is published under the name.
            CorruptError: the manifest is damaged.
        """
        return Version._of(self._version(name, None))

    def version(self, name: str, number: int) -> Version:
        """A version of a name by its number.

        Raises:
            NotFoundError: it does not exist or was removed.
            CorruptError: the manifest is damaged.
        """
        return Version._of(self._version(name, number))

    @overload
    def publish(
        self,
        name: str,
        path: AnyPath,
        *,
        labels: Mapping[str, str] | None = None,
        verify: bool = False,
        if_changed: Literal[False] = False,
        progress: Progress = None,
    ) -> Published: ...

    @overload
    def publish(
        self,
        name: str,
        path: AnyPath,
        *,
        labels: Mapping[str, str] | None = None,
        verify: bool = False,
        if_changed: bool,
        progress: Progress = None,
    ) -> Published | None: ...

    def publish(
        self,
        name: str,
        path: AnyPath,
        *,
        labels: Mapping[str, str] | None = None,
        verify: bool = False,
        if_changed: bool = False,
        progress: Progress = None,
    ) -> Published | None:
        """Publishes a table or collection as the next version of a name.

        Once this returns, the version is durable and readers get it. After an error it does not
        exist, except that an `IoError` leaves the outcome open. Only files that the newest version
        does not have are sent. Into a directory on the same file system they are hard-linked: do
        not overwrite published files in place.

        Args:
            name: 1 to 100 characters of `A-Z a-z 0-9 . _ -`, not a dot first.
            path: the file of a table, or the directory of a collection or of a sharded table.
            labels: texts by name that are kept with the version: at most 100, of at most 4096
                bytes each.
            verify: also read the files that the catalog already has, and replace damaged ones.
            if_changed: publish nothing if the newest version has exactly these files.
            progress: `True` for a progress bar, or a function of the bytes sent and the total.

        Returns:
            the result, or `None` if nothing has changed and `if_changed` is set.

        Raises:
            AlreadyExistsError: another publisher was faster. Nothing was changed; call it again.
            NotFoundError: there is nothing at the path.
            InvalidArgumentError: an invalid name, or the path is no table and no collection.
            CorruptError: a file is damaged.
        """
        with reporting(progress, f"publish {name}", "B") as report:
            done = self._publish(name, path, dict(labels or {}), verify, if_changed, report)
        return None if done is None else Published._of(done)

    def stage(self, name: str, path: AnyPath, *, progress: Progress = None) -> Staged:
        """Stores the file of a table, or of a shard, for a later version, without publishing it.

        Send the text of the result to the machine that calls `publish_staged`. A staged file stays
        until `clean` finds it older than `grace`.

        Args:
            name: the name that it will be published under.
            path: the file of a table.
            progress: `True` for a progress bar, or a function of the bytes sent and the total.

        Raises:
            InvalidArgumentError: the path is a directory.
        """
        with reporting(progress, f"stage {name}", "B") as report:
            return Staged(**self._stage(name, path, report))

    def publish_staged(
        self,
        name: str,
        staged: Iterable[Staged | str],
        *,
        labels: Mapping[str, str] | None = None,
        verify: bool = False,
    ) -> Published:
        """Publishes staged files as the next version of a name: one file as a table, several as a
        sharded table, in the order of the shards.

        Args:
            name: the name that the files were staged for.
            staged: what `stage` has returned, or the texts of these.
            labels: as for `publish`.
            verify: also read the staged files and compare their hashes.

        Raises:
            NotFoundError: a staged file was removed; stage it again.
            InvalidArgumentError: the files are not the shards of one table, in their order.
            CorruptError: a text is not a line that `stage` has made.

        Examples:
            >>> table = firndb.build_table({"Oslo": "cold"}, "1.table")
            >>> catalog = firndb.Catalog("catalog", create=True)
            >>> staged = catalog.stage("weather", "1.table")
            >>> catalog.publish_staged("weather", [str(staged)]).version.kind
            'table'
        """
        if isinstance(staged, str | Staged):
            raise TypeError("staged is a list of staged files or of their texts, not a single one")
        texts = [str(one) for one in staged]
        done = self._publish_staged(name, texts, dict(labels or {}), verify)
        return Published._of(done)

    def rollback(
        self,
        name: str,
        to: int | Version,
        *,
        labels: Mapping[str, str] | None = None,
        verify: bool = False,
    ) -> Published:
        """Publishes the files of an older version as the next version. Nothing is sent.

        Args:
            name: the name.
            to: the version whose files are published again.
            labels: as for `publish`.
            verify: as for `publish`.

        Raises:
            NotFoundError: the version does not exist.
            AlreadyExistsError: another publisher was faster.
        """
        done = self._rollback(name, _number(to), dict(labels or {}), verify)
        return Published._of(done)

    def clean(
        self, name: str, *, keep: int = 3, grace: Duration = _DAY, dry_run: bool = False
    ) -> Cleaned:
        """Removes versions that are neither recent nor pinned, and files that no version lists.

        Publishers, readers and other clean-ups may run at the same time.

        Args:
            name: the name.
            keep: how many of the newest versions are kept, at least 1.
            grace: how long a version is kept after the next one was published, for readers that
                are fetching it, and a staged file after it was staged: seconds or a `timedelta`.
            dry_run: only report what would be removed.

        Raises:
            CorruptError: the manifest of a version that is kept is damaged. Nothing was removed.
        """
        if keep < 1:
            raise ValueError(f"keep is at least 1, not {keep}")
        age = timedelta(seconds=seconds(grace, "grace"))
        return Cleaned(**self._clean(name, keep, age, dry_run))

    def verify(
        self, name: str, version: int | Version | None = None, *, progress: Progress = None
    ) -> Verification:
        """Reads every byte of a version and compares it with the manifest.

        Args:
            name: the name.
            version: the version, by default the newest.
            progress: `True` for a progress bar, or a function of the bytes read and the total.

        Returns:
            the files and bytes that were checked. Records are not counted.

        Raises:
            CorruptError: a file differs. Its `path` is the object.
            NotFoundError: a file is missing.
        """
        with reporting(progress, f"verify {name}", "B") as report:
            return Verification.of(self._verify(name, _number_or_newest(version), report))

    def diff(
        self, name: str, before: int | Version, after: int | Version | None = None
    ) -> Diff:
        """Compares two versions.

        Args:
            name: the name.
            before: the first version.
            after: the second version, by default the newest.
        """
        return Diff._of(self._diff(name, _number(before), _number_or_newest(after)))

    def pull(
        self,
        name: str,
        to: AnyPath,
        version: int | Version | None = None,
        *,
        threads: int = 8,
        progress: Progress = None,
    ) -> Version:
        """Copies the files of a version into a directory, under the names that they had.

        Args:
            name: the name.
            to: a directory that is missing, empty, left by an interrupted pull of this version, or
                contains only files of this version. From a catalog on the same file system the
                files are hard-linked.
            version: the version, by default the newest.
            threads: how many files are fetched at the same time.
            progress: `True` for a progress bar, or a function of the bytes fetched and the total.

        Returns:
            the version.

        Raises:
            AlreadyExistsError: the directory has other contents.
        """
        if threads < 1:
            raise ValueError(f"threads is at least 1, not {threads}")
        number = _number_or_newest(version)
        with reporting(progress, f"pull {name}", "B") as report:
            return Version._of(self._pull(name, to, number, threads, report))

    def reader(
        self,
        name: str,
        cache_dir: AnyPath,
        *,
        version: int | Version | None = None,
        access: TableAccess = "map",
        warm: bool | None = None,
        bundle_limit_bytes: int | None = None,
        cache_bytes: int | None = None,
        threads: int = 8,
    ) -> CatalogReader:
        """Opens the newest version of a name, and later its successors: see `CatalogReader`."""
        return CatalogReader(
            self,
            name,
            cache_dir,
            version=_number_or_newest(version),
            access=access,
            warm=warm,
            bundle_limit_bytes=bundle_limit_bytes,
            cache_bytes=cache_bytes,
            threads=threads,
        )

    def __repr__(self) -> str:
        return f"firndb.Catalog({self.location!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Catalog):
            return self._location == other._location
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._location)

    def __reduce__(self) -> tuple[type[Catalog], tuple[str]]:
        return (type(self), (self._location,))


def _number(version: int | Version) -> int:
    return version.number if isinstance(version, Version) else version


def _number_or_newest(version: int | Version | None) -> int | None:
    return None if version is None else _number(version)
