package io.firndb;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * Turns feeds of documents into a {@link Collection}, and rebuilds only what changed. A source
 * delivers documents by key; the index keeps them in a log. {@link #publish} rebuilds the
 * partitions with changes. One process at a time opens an index, and any number of processes read
 * the collection in its directory {@code collection}.
 *
 * <pre>{@code
 * Schema schema = Schema.of(Field.of("city", FieldType.STRING).full());
 * try (Indexer index = Indexer.open(
 *         Path.of("rooms.index"), schema, Partitioning.byField("city"))) {
 *     try (Feed feed = index.feed("rooms")) {            // all documents of this source
 *         feed.add("room 1", new Document().set("city", "Oslo"));
 *         feed.finish();
 *     }
 *     index.upsert("rooms", "room 2", new Document().set("city", "Bergen"));
 *     index.publish();                                   // now readers see it
 * }
 * }</pre>
 *
 * <p>If several sources have a document of a key, that of the source with the smallest name is
 * published. Changes are atomic, and survive power loss once a call returns.
 *
 * <p>Calls of several threads run one after another. While a feed is in progress, the index can
 * only be read: other methods throw {@link LockedException}. All methods throw
 * {@link IllegalStateException} if the index is closed, {@link CorruptException} if what they read
 * is damaged, and {@link FirnIOException} if the operating system reports a failure.
 */
public final class Indexer implements AutoCloseable {
    private final Native handle;
    private final Path path;
    private final Schema schema;
    private final boolean isRemade;

    private Indexer(long id, Path path) {
        this.handle = new Native(Native.Kind.INDEXER, id);
        this.path = path;
        this.schema = Schema.unpack(handle.indexerSchema(id));
        this.isRemade = handle.indexerIsRemade(id);
    }

    /**
     * Opens or creates an index with default options.
     *
     * @param path its directory
     * @param schema the fields of the documents, not dynamic
     * @param partitioning how documents are assigned to partitions
     * @return the index; close it
     * @throws IllegalArgumentException if the index has another schema or partitioning; see
     *     {@link #repartition}
     * @throws LockedException if another process has it open
     */
    public static Indexer open(Path path, Schema schema, Partitioning partitioning) {
        return open(path, schema, partitioning, IndexerOptions.defaults());
    }

    /**
     * Opens or creates an index.
     *
     * @param path its directory
     * @param schema the fields of the documents, not dynamic
     * @param partitioning how documents are assigned to partitions
     * @param options the options
     * @return the index; close it
     * @throws IllegalArgumentException if the index has another schema or partitioning; see
     *     {@link #repartition}
     * @throws LockedException if another process has it open
     */
    public static Indexer open(
            Path path, Schema schema, Partitioning partitioning, IndexerOptions options) {
        return open(path, schema.toToml(), partitioning.field(), partitioning.partitions(), options);
    }

    /**
     * Opens an index that exists, with its schema and partitioning.
     *
     * @param path its directory
     * @return the index; close it
     * @throws NotFoundException if there is no index
     * @throws LockedException if another process has it open
     */
    public static Indexer openExisting(Path path) {
        return openExisting(path, IndexerOptions.defaults());
    }

    /**
     * Opens an index that exists, with its schema and partitioning.
     *
     * @param path its directory
     * @param options the options
     * @return the index; close it
     * @throws NotFoundException if there is no index
     * @throws LockedException if another process has it open
     */
    public static Indexer openExisting(Path path, IndexerOptions options) {
        return open(path, null, null, 0, options);
    }

    private static Indexer open(
            Path path, String schema, String field, int partitions, IndexerOptions options) {
        NativeLibrary.load();
        Native.closeLeaks();
        Path absolute = path.toAbsolutePath();
        long id = Native.indexerOpen(
                absolute.toString(), schema, field, partitions, options.memoryLimit,
                options.threads, options.maxRemoved);
        return new Indexer(id, absolute);
    }

    /**
     * The directory of the index.
     *
     * @return its absolute path
     */
    public Path path() {
        return path;
    }

    /**
     * The fields of the documents.
     *
     * @return the schema
     */
    public Schema schema() {
        return schema;
    }

    /**
     * How documents are assigned to partitions.
     *
     * @return the partitioning
     */
    public Partitioning partitioning() {
        Unpacked from = new Unpacked(handle.indexerPartitioning(handle.id));
        String field = from.nextText();
        return new Partitioning(field.isEmpty() ? null : field, from.nextInt());
    }

    /**
     * Whether the collection was missing when the index was opened, or was not the one that the
     * index had published last. Then the next {@link #publish} rebuilds all of it.
     *
     * @return true if so
     */
    public boolean isRemade() {
        return isRemade;
    }

    /**
     * A reader of the collection, as published last. Takes about a microsecond.
     *
     * @return the reader; close it. It stays usable when the index is closed.
     */
    public CollectionReader reader() {
        return new CollectionReader(
                new Native(Native.Kind.COLLECTION_READER, handle.indexerReader(handle.id)));
    }

    /**
     * Opens the collection, as another process would. It cannot be changed.
     *
     * @return the collection; close it
     */
    public Collection collection() {
        return Collection.open(path.resolve("collection"));
    }

    /**
     * Begins a new version of everything that a source has. When the feed is finished, keys that
     * are new are added, documents that differ are updated, and keys that the feed does not have
     * are removed, within the limit of {@link IndexerOptions#maxRemoved}.
     *
     * @param source the name of the source, 1 to 255 bytes in UTF-8
     * @return the feed; finish and close it
     * @throws LockedException if another feed is in progress
     */
    public Feed feed(String source) {
        return feed(source, true);
    }

    /**
     * Begins single changes of a source. Keys that they do not name stay as they are.
     *
     * @param source the name of the source, 1 to 255 bytes in UTF-8
     * @return the changes; finish and close them
     * @throws LockedException if another feed is in progress
     */
    public Feed changes(String source) {
        return feed(source, false);
    }

    private Feed feed(String source, boolean isWhole) {
        Objects.requireNonNull(source, "source");
        Native.closeLeaks();
        long id = handle.indexerFeed(handle.id, source, isWhole);
        return new Feed(new Native(Native.Kind.FEED, id));
    }

    /**
     * Applies a new version of a source: {@link #feed} with these documents. If one of them is
     * refused, or if the feed would remove too many, nothing is changed. Does not publish.
     *
     * @param source the name of the source
     * @param documents all its documents and their keys
     * @return what has changed
     * @throws IllegalArgumentException if a document does not fit the schema, or the feed would
     *     remove more documents than it may
     */
    public Applied apply(String source, Iterable<KeyedDocument> documents) {
        try (Feed feed = feed(source)) {
            feed.addAll(documents);
            return feed.finish();
        }
    }

    /**
     * Adds or replaces the document of a key.
     *
     * @param source the name of the source
     * @param key the key, 1 to 65,535 bytes
     * @param document the document
     * @return false if the source has this document already
     * @throws IllegalArgumentException if the document does not fit the schema
     */
    public boolean upsert(String source, byte[] key, Document document) {
        Objects.requireNonNull(source, "source");
        Packed packed = new Packed(256);
        new KeyedDocument(key, document).pack(packed);
        return handle.indexerUpsert(handle.id, source, packed.bytes, packed.length);
    }

    /**
     * Adds or replaces the document of a key.
     *
     * @param source the name of the source
     * @param key the key, which is stored as UTF-8
     * @param document the document
     * @return false if the source has this document already
     * @throws IllegalArgumentException if the document does not fit the schema
     */
    public boolean upsert(String source, String key, Document document) {
        return upsert(source, KeyedDocument.bytes(key), document);
    }

    /**
     * Adds or replaces the document of a key.
     *
     * @param source the name of the source
     * @param key the key: the bytes from the position of the buffer to its limit
     * @param document the document
     * @return false if the source has this document already
     * @throws IllegalArgumentException if the document does not fit the schema
     */
    public boolean upsert(String source, ByteBuffer key, Document document) {
        return upsert(source, Buffers.copy(key), document);
    }

    /**
     * Removes the document of a key.
     *
     * @param source the name of the source
     * @param key the key
     * @return false if the source has none
     */
    public boolean delete(String source, byte[] key) {
        Objects.requireNonNull(source, "source");
        return handle.indexerDelete(handle.id, source, key, key.length);
    }

    /**
     * Removes the document of a key.
     *
     * @param source the name of the source
     * @param key the key, as UTF-8
     * @return false if the source has none
     */
    public boolean delete(String source, String key) {
        return delete(source, KeyedDocument.bytes(key));
    }

    /**
     * Removes the document of a key.
     *
     * @param source the name of the source
     * @param key the key: the bytes from the position of the buffer to its limit
     * @return false if the source has none
     */
    public boolean delete(String source, ByteBuffer key) {
        return delete(source, Buffers.copy(key));
    }

    /**
     * Rebuilds the partitions with changes, and publishes them as one version of the collection.
     * When this returns, the version is durable and new readers get it.
     *
     * @return what was published
     * @throws FailedException if the collection was changed or replaced since the index was opened;
     *     then nothing was published
     * @throws IllegalArgumentException if a partition does not fit into the memory of a thread
     */
    public Publication publish() {
        return Publication.of(new Unpacked(handle.indexerPublish(handle.id)));
    }

    /**
     * Does what {@link #publish} does, and then publishes the collection as the next version of a
     * name in a catalog, unless the newest version is this collection already. If the process ends
     * between the two steps, the next call does the second.
     *
     * @param catalog the catalog
     * @param name the name in the catalog
     * @return what was published
     * @throws AlreadyExistsException if another publisher was faster; the collection has the
     *     changes, and the call can be repeated
     * @throws FailedException as {@link #publish}
     */
    public Publication publishTo(Catalog catalog, String name) {
        Objects.requireNonNull(name, "name");
        try {
            return Publication.of(new Unpacked(
                    handle.indexerPublishTo(handle.id, catalog.handle.id, name)));
        } finally {
            // The catalog is not closed as a leak during the call.
            Reference.reachabilityFence(catalog);
        }
    }

    /**
     * Assigns all documents to partitions anew. Reads every document. The published partitions stay
     * until {@link #publish}, which then rebuilds everything.
     *
     * @param partitioning how documents are assigned from now on
     * @throws IllegalArgumentException if the field does not exist, or is not fit
     */
    public void repartition(Partitioning partitioning) {
        handle.indexerRepartition(handle.id, partitioning.field(), partitioning.partitions());
    }

    /**
     * Counts what is in the index. Takes about 10 ms per million keys.
     *
     * @return the figures
     */
    public Status status() {
        return Status.of(new Unpacked(handle.indexerStatus(handle.id)));
    }

    /**
     * Makes a backup, or updates an earlier backup of this index. It has everything that was
     * applied, published or not, and opens like any index.
     *
     * @param to a directory that is new or empty, or has an earlier backup of this index
     * @return what it contains
     * @throws AlreadyExistsException if the directory has anything else; then nothing was changed
     */
    public Backup backup(Path to) {
        long[] made = handle.indexerBackup(handle.id, to.toAbsolutePath().toString());
        return new Backup(made[0], made[1], made[2], made[3]);
    }

    /**
     * What a feed or single changes have changed.
     *
     * @param added keys that are new to the source
     * @param updated keys whose document has changed
     * @param removed keys that were removed from the source
     * @param unchanged keys whose document is the same
     * @param repeated documents whose key occurred earlier in the same feed
     * @param dirty partitions with changes, ascending
     */
    public record Applied(
            long added, long updated, long removed, long unchanged, long repeated,
            List<String> dirty) {
        static Applied of(Unpacked from) {
            return new Applied(
                    from.nextLong(), from.nextLong(), from.nextLong(), from.nextLong(),
                    from.nextLong(), from.nextTexts());
        }
    }

    /**
     * What was published.
     *
     * @param version the number of the version of the collection
     * @param rebuilt partitions that were rebuilt, ascending
     * @param removed partitions that were removed, because they have no documents any more
     * @param documents documents in the rebuilt partitions
     * @param bytes bytes of the files of the rebuilt partitions
     * @param published the new version in the catalog, if {@link #publishTo} made one
     */
    public record Publication(
            long version, List<String> rebuilt, List<String> removed, long documents, long bytes,
            Optional<Catalog.Published> published) {
        static Publication of(Unpacked from) {
            return new Publication(
                    from.nextLong(), from.nextTexts(), from.nextTexts(), from.nextLong(),
                    from.nextLong(), nextPublished(from.nextBytes()));
        }

        private static Optional<Catalog.Published> nextPublished(byte[] packed) {
            return packed.length == 0
                    ? Optional.empty() : Optional.of(Catalog.Published.of(packed));
        }
    }

    /**
     * What is in an index.
     *
     * @param sources the number of documents by the names of the sources
     * @param dirty partitions with changes that are not published, ascending
     * @param partitions partitions of the collection
     * @param documents published documents
     * @param bytes bytes of the files of the partitions
     * @param version the number of the published version
     * @param logBytes bytes of the log
     */
    public record Status(
            Map<String, Long> sources, List<String> dirty, long partitions, long documents,
            long bytes, long version, long logBytes) {
        static Status of(Unpacked from) {
            Map<String, Long> sources = new LinkedHashMap<>();
            for (String name : from.nextTexts()) {
                sources.put(name, from.nextLong());
            }
            return new Status(
                    Collections.unmodifiableMap(sources), from.nextTexts(), from.nextLong(),
                    from.nextLong(), from.nextLong(), from.nextLong(), from.nextLong());
        }
    }

    /**
     * What a backup contains.
     *
     * @param segments segments of the log
     * @param kept those that an earlier backup in the same directory already had
     * @param copied those that were copied because no hard link was possible
     * @param partitions partitions of the collection
     */
    public record Backup(long segments, long kept, long copied, long partitions) {}

    /**
     * Closes the index: waits for running calls, and discards a feed in progress. Readers stay
     * usable. Has no effect if it is closed.
     *
     * @throws FailedException if a write or sync failed since the index was opened
     */
    @Override
    public void close() {
        handle.close();
    }
}
