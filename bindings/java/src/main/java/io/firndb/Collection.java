package io.firndb;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A directory of partitions, files of documents that never change. A {@link Change} puts, merges
 * and removes partitions, atomically; a {@link CollectionReader} queries one version of the
 * collection. One process at a time changes a collection, and any number of processes read it. Any
 * number of threads may use an object.
 *
 * <pre>{@code
 * try (Collection collection = Collection.create(Path.of("rooms"));
 *         PartitionBuilder builder = PartitionBuilder.create(schema);
 *         Change change = collection.change()) {
 *     builder.add(new Document().set("city", "Oslo").set("price", 80.0));
 *     change.put("monday", builder).commit();
 *     try (CollectionReader reader = collection.reader()) {
 *         System.out.println(reader.size());
 *     }
 * }
 * }</pre>
 *
 * <p>All methods throw {@link IllegalStateException} if the collection is closed,
 * {@link CorruptException} if what they read is damaged, and {@link FirnIOException} if the
 * operating system reports a failure.
 */
public final class Collection implements AutoCloseable {
    private final Native handle;
    private final Path path;

    private Collection(long id, Path path) {
        this.handle = new Native(Native.Kind.COLLECTION, id);
        this.path = path;
    }

    /**
     * Creates an empty collection.
     *
     * @param path its directory, which is missing or empty
     * @return the collection
     * @throws AlreadyExistsException if the directory has files
     */
    public static Collection create(Path path) {
        NativeLibrary.load();
        Native.closeLeaks();
        Path absolute = path.toAbsolutePath();
        return new Collection(Native.collectionCreate(absolute.toString()), absolute);
    }

    /**
     * Opens the newest version of a collection.
     *
     * @param path its directory
     * @return the collection
     * @throws NotFoundException if there is no collection
     * @throws CorruptException if it is damaged
     */
    public static Collection open(Path path) {
        NativeLibrary.load();
        Native.closeLeaks();
        Path absolute = path.toAbsolutePath();
        return new Collection(Native.collectionOpen(absolute.toString()), absolute);
    }

    /**
     * Opens a collection, or creates it if there is none.
     *
     * @param path its directory
     * @return the collection
     * @throws AlreadyExistsException if the directory has other files
     * @throws CorruptException if the collection is damaged
     */
    public static Collection openOrCreate(Path path) {
        try {
            return open(path);
        } catch (NotFoundException absent) {
            try {
                return create(path);
            } catch (AlreadyExistsException other) {
                try {
                    return open(path); // Another process may have created it meanwhile.
                } catch (NotFoundException e) {
                    throw other;
                }
            }
        }
    }

    /**
     * Opens partition files that belong to no collection: see {@link PartitionBuilder#write}.
     *
     * @param files the files; each is a partition, named by its file name, or by its absolute path if
     *     several have the same name
     * @return a reader; close it
     * @throws NotFoundException if there is no such file
     * @throws CorruptException if one is damaged
     * @throws IllegalArgumentException if a file is given twice, or their schemas do not fit
     */
    public static CollectionReader openFiles(List<Path> files) {
        NativeLibrary.load();
        Native.closeLeaks();
        Packed packed = new Packed(256);
        files.forEach(file -> packed.addText(file.toAbsolutePath().toString()));
        return reader(Native.collectionOpenFiles(packed.bytes, packed.length));
    }

    private static CollectionReader reader(long id) {
        return new CollectionReader(new Native(Native.Kind.COLLECTION_READER, id));
    }

    /**
     * The directory of the collection.
     *
     * @return its absolute path
     */
    public Path path() {
        return path;
    }

    /**
     * A reader of the current version, which later changes do not affect. Takes about a
     * microsecond.
     *
     * @return the reader; close it. It stays usable when the collection is closed.
     */
    public CollectionReader reader() {
        return reader(handle.collectionReader(handle.id));
    }

    /**
     * The number of the current version. Each change increments it.
     *
     * @return the number
     */
    public long version() {
        return handle.collectionVersion(handle.id);
    }

    /**
     * Switches to the newest version, which another process may have committed.
     *
     * @return whether there was a newer one
     * @throws FailedException if an older copy was restored to the directory; open it again
     */
    public boolean refresh() {
        return handle.collectionRefresh(handle.id);
    }

    /**
     * Begins a change. Nothing is locked before it is committed.
     *
     * @return the change; close it
     * @throws IllegalArgumentException if the collection belongs to an {@link Indexer}, which alone
     *     changes it
     */
    public Change change() {
        Native.closeLeaks();
        return new Change(new Native(Native.Kind.CHANGE, handle.collectionChange(handle.id)));
    }

    /**
     * Merges runs of small partitions. Each run is a separate change. Results of queries do not
     * change. The old names stay reserved: a change can no longer put or remove them. If a run cannot
     * be merged, it is left as it is, and the exception is thrown after the other runs were merged.
     *
     * @param policy which partitions are merged
     * @return what was merged
     * @throws LockedException if another process is changing the collection
     */
    public List<Merge> compact(MergePolicy policy) {
        return compact(policy, false);
    }

    /**
     * What {@link #compact} would merge now.
     *
     * @param policy which partitions are merged
     * @return what would be merged
     */
    public List<Merge> compactPlan(MergePolicy policy) {
        return compact(policy, true);
    }

    private List<Merge> compact(MergePolicy policy, boolean isDryRun) {
        Unpacked merges = new Unpacked(handle.collectionCompact(
                handle.id, policy.small, policy.mostDocuments, policy.mostBytes, policy.atLeast,
                policy.unchangedMillis, isDryRun));
        List<Merge> all = new ArrayList<>();
        while (!merges.isOver()) {
            String into = merges.nextText();
            long documents = merges.nextLong();
            all.add(new Merge(merges.nextTexts(), into, documents));
        }
        return all;
    }

    /**
     * Partitions that were merged into one, or would be.
     *
     * @param from the names of the merged partitions, in order
     * @param into the name of the new partition
     * @param documents the number of its documents
     */
    public record Merge(List<String> from, String into, long documents) {}

    /** Which partitions are merged. Immutable: each method returns a changed policy. */
    public static final class MergePolicy {
        private static final MergePolicy DEFAULTS =
                new MergePolicy(1 << 16, 1 << 20, 1 << 30, 4, 3_600_000);

        private final long small;
        private final long mostDocuments;
        private final long mostBytes;
        private final long atLeast;
        private final long unchangedMillis;

        private MergePolicy(
                long small, long mostDocuments, long mostBytes, long atLeast,
                long unchangedMillis) {
            for (long number : new long[] {small, mostDocuments, mostBytes, atLeast}) {
                if (number < 0) {
                    throw new IllegalArgumentException("a limit is negative: " + number);
                }
            }
            this.small = small;
            this.mostDocuments = mostDocuments;
            this.mostBytes = mostBytes;
            this.atLeast = atLeast;
            this.unchangedMillis = unchangedMillis;
        }

        /**
         * The defaults.
         *
         * @return the default policy
         */
        public static MergePolicy defaults() {
            return DEFAULTS;
        }

        /**
         * Partitions with fewer documents are small. Others are never merged. Default: 65,536.
         *
         * @param documents the number
         * @return the changed policy
         */
        public MergePolicy small(long documents) {
            return new MergePolicy(documents, mostDocuments, mostBytes, atLeast, unchangedMillis);
        }

        /**
         * Most documents of a merged partition. Default: 1,048,576.
         *
         * @param documents the number
         * @return the changed policy
         */
        public MergePolicy mostDocuments(long documents) {
            return new MergePolicy(small, documents, mostBytes, atLeast, unchangedMillis);
        }

        /**
         * Most bytes of the files that are merged into one partition. Default: 1 GiB.
         *
         * @param bytes the size
         * @return the changed policy
         */
        public MergePolicy mostBytes(long bytes) {
            return new MergePolicy(small, mostDocuments, bytes, atLeast, unchangedMillis);
        }

        /**
         * Fewest adjacent partitions that are merged. Default: 4; less than 2 counts as 2.
         *
         * @param partitions the number
         * @return the changed policy
         */
        public MergePolicy atLeast(int partitions) {
            return new MergePolicy(small, mostDocuments, mostBytes, partitions, unchangedMillis);
        }

        /**
         * How long a partition has not changed before it is merged. Partitions that will probably
         * be replaced should be left alone. Default: one hour.
         *
         * @param time the time, in milliseconds; not negative
         * @return the changed policy
         */
        public MergePolicy unchangedFor(Duration time) {
            return new MergePolicy(
                    small, mostDocuments, mostBytes, atLeast, Buffers.millis("the time", time));
        }
    }

    /**
     * Closes the collection. Waits for running calls. Readers and changes stay usable. Has no
     * effect if it is closed.
     */
    @Override
    public void close() {
        handle.close();
    }
}
