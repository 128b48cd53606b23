package io.firndb;

import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;

/**
 * Versions of tables and collections under names, in a directory or in S3. Programs publish
 * versions, and readers switch to them while they answer queries. Any number of threads and
 * processes may use a catalog at the same time. A name has 1 to 100 characters of
 * {@code A-Z a-z 0-9 . _ -} and does not begin with a dot.
 *
 * <pre>{@code
 * try (Catalog catalog = Catalog.create(Path.of("catalog"))) {
 *     catalog.publish("users", Path.of("users.firn"), PublishOptions.defaults());
 * }
 * }</pre>
 *
 * <p>A version is complete or absent: its files are stored durably before its manifest is created.
 * Files of the same file system are hard-linked, so a published file must not be overwritten in
 * place. {@link #reader} opens versions.
 *
 * <p>All methods throw {@link IllegalStateException} if the catalog is closed,
 * {@link IllegalArgumentException} for a name that is not allowed, {@link CorruptException} if a
 * manifest is damaged, and {@link FirnIOException} if the operating system reports a failure.
 */
public final class Catalog implements AutoCloseable {
    /** Stands for the newest version. */
    private static final long NEWEST = -1;

    final Native handle;
    private final Path path;

    private Catalog(Native handle, Path path) {
        this.handle = handle;
        this.path = path;
    }

    /**
     * Opens the catalog in a directory.
     *
     * @param dir an existing directory
     * @return the catalog; close it
     * @throws NotFoundException if there is no such directory
     */
    public static Catalog open(Path dir) {
        return open(dir, false);
    }

    /**
     * Opens the catalog in a directory, and creates the directory if it is missing.
     *
     * @param dir the directory
     * @return the catalog; close it
     * @throws AlreadyExistsException if the directory has contents that do not belong to a catalog
     */
    public static Catalog create(Path dir) {
        return open(dir, true);
    }

    private static Catalog open(Path dir, boolean create) {
        NativeLibrary.load();
        Native.closeLeaks();
        Path absolute = dir.toAbsolutePath();
        long id = Native.catalogOpen(absolute.toString(), create);
        return new Catalog(new Native(Native.Kind.CATALOG, id), absolute);
    }

    /**
     * Opens a catalog on another machine. The guide of catalogs says where credentials and regions
     * come from (for S3: the environment variables of AWS) and what a web server must support.
     *
     * @param location {@code s3://bucket/prefix}, or {@code https://host/path}, which is read-only
     * @return the catalog; close it
     * @throws NotFoundException if the bucket does not exist
     * @throws IllegalArgumentException if it is a directory, or of another scheme
     */
    public static Catalog open(URI location) {
        if (!location.toString().contains("://") || location.getScheme().equals("file")) {
            throw new IllegalArgumentException(
                    location + " is not on another machine: open a directory by its Path");
        }
        NativeLibrary.load();
        Native.closeLeaks();
        long id = Native.catalogOpenUrl(location.toString());
        return new Catalog(new Native(Native.Kind.CATALOG, id), null);
    }

    /**
     * The directory of the catalog.
     *
     * @return its absolute path; {@code null} if the catalog was opened by a URI
     */
    public Path path() {
        return path;
    }

    /** Receives the progress of a call, in the thread of that call. */
    @FunctionalInterface
    public interface Progress {
        /**
         * Called after each file.
         *
         * @param done bytes of the files that are done
         * @param total bytes of all files
         * @return false to cancel the call, which then throws {@link CancelledException}. At most
         *     64 more files are stored before it does.
         */
        boolean report(long done, long total);
    }

    /**
     * The names that have been published.
     *
     * @return the names, sorted
     */
    public List<String> names() {
        return List.of(handle.catalogNames(handle.id));
    }

    /**
     * The versions of a name.
     *
     * @param name the name
     * @return the numbers, ascending; those of removed versions are missing
     * @throws NotFoundException if nothing is published under the name
     */
    public List<Long> versions(String name) {
        return numbers(handle.catalogVersions(handle.id, name), 0);
    }

    private static List<Long> numbers(long[] numbers, int from) {
        return Arrays.stream(numbers).skip(from).boxed().toList();
    }

    /**
     * The newest version of a name.
     *
     * @param name the name
     * @return the version
     * @throws NotFoundException if nothing is published under the name
     */
    public Version newest(String name) {
        return Version.of(new Unpacked(handle.catalogVersion(handle.id, name, NEWEST)));
    }

    /**
     * A version of a name.
     *
     * @param name the name
     * @param number the number of the version
     * @return the version
     * @throws NotFoundException if it does not exist or was removed
     */
    public Version version(String name, long number) {
        return Version.of(new Unpacked(handle.catalogVersion(handle.id, name, checked(number))));
    }

    private static long checked(long number) {
        if (number < 0) {
            throw new IllegalArgumentException("the number of a version is negative: " + number);
        }
        return number;
    }

    /**
     * A version that was published.
     *
     * @param version the version
     * @param sentFiles files that the version before did not have
     * @param sentBytes bytes of these files. Files of the same file system are linked, not copied.
     * @param repairedFiles files that were missing or damaged in the catalog and were stored again
     */
    public record Published(Version version, long sentFiles, long sentBytes, long repairedFiles) {
        static Published of(byte[] packed) {
            Unpacked from = new Unpacked(packed);
            return new Published(
                    Version.of(from), from.nextLong(), from.nextLong(), from.nextLong());
        }
    }

    /**
     * Publishes a table or a collection as the next version of a name, with default options.
     *
     * @param name the name
     * @param path as in {@link #publish(String, Path, PublishOptions)}
     * @return the version
     * @throws AlreadyExistsException if another publisher was faster; publish again
     */
    public Published publish(String name, Path path) {
        return publish(name, path, PublishOptions.defaults());
    }

    /**
     * Publishes a table or a collection as the next version of a name. When this returns, the
     * version is durable, and readers get it. After an exception there is no new version, except
     * that {@link FirnIOException} leaves this open. Only files that the newest version does not
     * have are read and stored.
     *
     * @param name the name
     * @param path the file of a table or approximate table, or the directory of a collection or of
     *     a sharded table
     * @param options the options
     * @return the version
     * @throws NotFoundException if there is nothing at the path
     * @throws AlreadyExistsException if another publisher was faster: nothing was changed; publish
     *     again
     * @throws CorruptException if a file is damaged
     * @throws CancelledException if the progress callback returned false
     * @throws IllegalArgumentException if the path is none of these, or if a directory is not that
     *     of a complete sharded table
     */
    public Published publish(String name, Path path, PublishOptions options) {
        return Published.of(publish(name, path, false, options));
    }

    /**
     * Does the same as {@link #publish(String, Path, PublishOptions)}, unless the newest version
     * has exactly these files.
     *
     * @param name the name
     * @param path as in {@code publish}
     * @param options the options
     * @return the version, or nothing if the newest version has these files
     */
    public Optional<Published> publishIfChanged(String name, Path path, PublishOptions options) {
        return Optional.ofNullable(publish(name, path, true, options)).map(Published::of);
    }

    private byte[] publish(String name, Path path, boolean ifChanged, PublishOptions options) {
        return handle.catalogPublish(
                handle.id, name, path.toAbsolutePath().toString(), ifChanged, options.packed(),
                options.progress);
    }

    /**
     * Stores the file of a table, or of a shard, for a later version, without publishing it: see
     * {@link #stage(String, Path, Progress)}.
     *
     * @param name the name
     * @param path the file
     * @return what {@link #publishStaged} takes
     */
    public Staged stage(String name, Path path) {
        return stage(name, path, null);
    }

    /**
     * Stores the file of a table, or of a shard, for a later version, without publishing it. When
     * this returns, the file is durable. It stays until {@link #clean} finds it older than
     * {@link CleanOptions#grace}, whether it was published or not. Reads the file three times.
     *
     * <p>Works inside a task of Spark, Flink or Hadoop. A task that is repeated may stage its file
     * again; the driver publishes one of them.
     *
     * @param name the name under which it will be published
     * @param path the file of a table or approximate table
     * @param progress receives the bytes stored and to store, and can cancel the call;
     *     {@code null} for none. If it throws, the call is cancelled and throws the same exception.
     * @return what {@link #publishStaged} takes
     * @throws NotFoundException if there is no such file
     * @throws CorruptException if it is damaged
     * @throws CancelledException if {@code progress} returned false
     * @throws IllegalArgumentException if it is not the file of a table
     */
    public Staged stage(String name, Path path, Progress progress) {
        String at = path.toAbsolutePath().toString();
        return Staged.parse(handle.catalogStage(handle.id, name, at, progress));
    }

    /**
     * Publishes staged files as the next version of a name: one file as a table, several as a
     * sharded table whose shard {@code i} is the file at index {@code i}. Nothing is sent: the
     * files are linked or copied within the catalog. Files that the newest version has are not
     * copied either, so {@code Staged} objects of unchanged shards can be used again.
     *
     * @param name the name for which the files were staged
     * @param staged what {@link #stage} has returned
     * @param options the options
     * @return the version
     * @throws NotFoundException if a staged file was removed: nothing was published; stage it again
     * @throws AlreadyExistsException if another publisher was faster; publish again
     * @throws CorruptException if the text of a staged file was changed
     * @throws IllegalArgumentException if these are not the shards of one table, in their order
     */
    public Published publishStaged(String name, List<Staged> staged, PublishOptions options) {
        Packed lines = new Packed(512 * Math.max(staged.size(), 1));
        staged.forEach(one -> lines.addText(one.toString()));
        return Published.of(handle.catalogPublishStaged(
                handle.id, name, lines.toArray(), options.packed()));
    }

    /**
     * Publishes the files of an older version as the next version. Nothing is sent, and the history
     * stays as it is.
     *
     * @param name the name
     * @param to the number of the version whose files are published again
     * @param options the options
     * @return the new version
     * @throws NotFoundException if the older version does not exist
     * @throws AlreadyExistsException if another publisher was faster; roll back again
     */
    public Published rollback(String name, long to, PublishOptions options) {
        return Published.of(
                handle.catalogRollback(handle.id, name, checked(to), options.packed()));
    }

    /**
     * Pins a version: {@link #clean} keeps it until it is unpinned.
     *
     * @param name the name
     * @param number the number of the version
     * @param note the reason, which is stored with the pin
     * @throws NotFoundException if the version does not exist or is being removed
     * @throws AlreadyExistsException if it is pinned already
     */
    public void pin(String name, long number, String note) {
        handle.catalogPin(handle.id, name, checked(number), note);
    }

    /**
     * Removes the pin of a version. Has no effect if it is not pinned.
     *
     * @param name the name
     * @param number the number of the version
     */
    public void unpin(String name, long number) {
        handle.catalogUnpin(handle.id, name, checked(number));
    }

    /**
     * The pinned versions of a name.
     *
     * @param name the name
     * @return the numbers, ascending
     */
    public List<Long> pins(String name) {
        return numbers(handle.catalogPins(handle.id, name), 0);
    }

    /**
     * What a clean-up has removed, or would remove.
     *
     * @param versions the numbers of the versions, ascending
     * @param files files that no version lists any more, or that interrupted publishers have left
     * @param bytes bytes of those files that a removed version listed
     * @param staged staged files, published or not
     */
    public record Cleaned(List<Long> versions, long files, long bytes, long staged) {}

    /**
     * Removes versions of a name that are neither recent nor pinned, files that no other version
     * lists, and old staged files. Publishers, readers and other clean-ups may run at the same
     * time.
     *
     * @param name the name
     * @param options what to keep
     * @return what was removed
     * @throws NotFoundException if the name has neither versions nor staged files
     * @throws CorruptException if the manifest of a version that is kept is damaged; then nothing
     *     was removed
     */
    public Cleaned clean(String name, CleanOptions options) {
        long[] n = handle.catalogClean(
                handle.id, name, options.keep, options.graceMillis, options.dryRun);
        return new Cleaned(numbers(n, 3), n[0], n[1], n[2]);
    }

    /**
     * Reads every byte of the newest version of a name: see
     * {@link #verify(String, long, Progress)}.
     *
     * @param name the name
     * @return what is intact
     */
    public Verification verify(String name) {
        return Verification.of(handle.catalogVerify(handle.id, name, NEWEST, null));
    }

    /**
     * Reads every byte of a version and compares it with the manifest.
     *
     * @param name the name
     * @param number the number of the version
     * @param progress receives the bytes read and to read, and can cancel the call; {@code null}
     *     for none. If it throws, the call is cancelled and throws the same exception.
     * @return the files and bytes that are intact; records are not counted
     * @throws CorruptException if a file differs; its path is that of the object
     * @throws NotFoundException if the version or a file is missing
     * @throws CancelledException if {@code progress} returned false
     */
    public Verification verify(String name, long number, Progress progress) {
        return Verification.of(handle.catalogVerify(handle.id, name, checked(number), progress));
    }

    /**
     * Copies the newest version of a name into a directory: see {@link #pull(String, long, Path)}.
     *
     * @param name the name
     * @param to the directory
     * @return the version
     */
    public Version pull(String name, Path to) {
        return pullAny(name, NEWEST, to);
    }

    /**
     * Copies the table, sharded table or collection of a version into a directory, under the names
     * that the files had. From a catalog on the same file system they are hard-linked.
     *
     * @param name the name
     * @param number the number of the version
     * @param to a directory that is missing, empty, left by an interrupted pull of this version, or
     *     contains only files of this version
     * @return the version
     * @throws NotFoundException if the version does not exist
     * @throws AlreadyExistsException if the directory has other contents; they are not touched
     */
    public Version pull(String name, long number, Path to) {
        return pullAny(name, checked(number), to);
    }

    private Version pullAny(String name, long number, Path to) {
        String dir = to.toAbsolutePath().toString();
        return Version.of(new Unpacked(
                handle.catalogPull(handle.id, name, number, dir, PULL_THREADS)));
    }

    /** Threads that fetch files. They end with the call. */
    private static final int PULL_THREADS = 8;

    /**
     * The difference between two versions.
     *
     * @param changes the parts that differ, ordered by name
     * @param keptFiles files that both versions have
     * @param keptBytes bytes of these files
     * @param newBytes bytes of the files that only the second version has: what a reader of the
     *     first must fetch
     */
    public record Diff(List<Change> changes, long keptFiles, long keptBytes, long newBytes) {
        private static Diff of(Unpacked from) {
            List<Change> changes = new ArrayList<>();
            for (int left = from.nextInt(); left > 0; left--) {
                changes.add(new Change(from.nextText(), from.nextLong(), from.nextLong()));
            }
            return new Diff(
                    Collections.unmodifiableList(changes), from.nextLong(), from.nextLong(),
                    from.nextLong());
        }
    }

    /**
     * A part that only one of two versions has, or that differs between them.
     *
     * @param name a partition, the file of a table, or {@code set} for the set file of a collection
     * @param before the bytes in the first version, or -1 if it does not have the part
     * @param after the bytes in the second version, or -1 if it does not have the part
     */
    public record Change(String name, long before, long after) {}

    /**
     * Compares two versions of a name. Reads their manifests only.
     *
     * @param name the name
     * @param before the number of the first version
     * @param after the number of the second version
     * @return the difference
     * @throws NotFoundException if a version does not exist
     */
    public Diff diff(String name, long before, long after) {
        return Diff.of(new Unpacked(
                handle.catalogDiff(handle.id, name, checked(before), checked(after))));
    }

    /**
     * Opens the newest version of a name, and later its successors, with default options.
     *
     * @param name the name
     * @param cacheDir as in {@link #reader(String, Path, CatalogReaderOptions)}
     * @return the reader; close it
     */
    public CatalogReader reader(String name, Path cacheDir) {
        return reader(name, cacheDir, CatalogReaderOptions.defaults());
    }

    /**
     * Opens the newest version of a name, or the one in the options. The reader does not need this
     * object any more.
     *
     * <p>If the newest version cannot be fetched or opened, the version that was last open with
     * this directory is opened, and {@link CatalogReader#stats} has the error.
     *
     * @param name the name
     * @param cacheDir the directory for the reader's copy of the files, which belongs to this
     *     reader alone: missing or empty at first. From a catalog on the same file system the files
     *     are hard-linked.
     * @param options the options
     * @return the reader; close it
     * @throws NotFoundException if nothing is published under the name, or there is no such version
     * @throws LockedException if another reader uses the directory
     * @throws AlreadyExistsException if the directory has other contents
     */
    public CatalogReader reader(String name, Path cacheDir, CatalogReaderOptions options) {
        Native.closeLeaks();
        Path absolute = cacheDir.toAbsolutePath();
        long id = options.open(handle, name, absolute);
        return new CatalogReader(new Native(Native.Kind.CATALOG_READER, id), name, absolute);
    }

    /**
     * Closes the catalog. Waits for running calls. Readers stay open. Has no effect if it is
     * closed.
     *
     * @throws IllegalStateException if it is called by the progress callback of one of its calls
     */
    @Override
    public void close() {
        handle.close();
    }
}
