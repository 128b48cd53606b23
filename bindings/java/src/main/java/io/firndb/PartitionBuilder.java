package io.firndb;

import java.nio.file.Path;
import java.util.Objects;

/**
 * Collects the documents of one partition of a {@link Collection}, in bounded memory outside of the
 * Java heap. Give it to a {@link Change}, or {@link #write} a file; that uses it up.
 *
 * <pre>{@code
 * try (PartitionBuilder builder = PartitionBuilder.create(schema)) {
 *     builder.add(new Document().set("city", "Oslo").payload(json));
 *     builder.write(Path.of("monday.part.firn"));
 * }
 * }</pre>
 *
 * <p>Calls of several threads run one after another. A builder can be used in tasks of Hadoop,
 * Spark or Flink: it has no threads, and closing it leaves no file. All methods throw
 * {@link IllegalStateException} if it is closed, and {@link FailedException} if it is used up.
 */
public final class PartitionBuilder implements AutoCloseable {
    final Native handle;

    private PartitionBuilder(Native handle) {
        this.handle = handle;
    }

    /** Options of a builder. Immutable: each method returns changed options. */
    public static final class Options {
        private static final Options DEFAULTS = new Options(1 << 30, null);

        private final long memoryLimit;
        private final String tempDir;

        private Options(long memoryLimit, String tempDir) {
            this.memoryLimit = memoryLimit;
            this.tempDir = tempDir;
        }

        /**
         * The defaults.
         *
         * @return the default options
         */
        public static Options defaults() {
            return DEFAULTS;
        }

        /**
         * Memory of documents that are not written yet, outside of the Java heap. A document that
         * would exceed it is refused. Payloads beyond a quarter of it go to a temporary file.
         * Writing needs more: up to 8 bytes per value and 24 bytes per distinct value of the
         * largest field. Default: 1 GiB.
         *
         * @param bytes the limit
         * @return the changed options
         */
        public Options memoryLimit(long bytes) {
            if (bytes < 0) {
                throw new IllegalArgumentException("a size is negative: " + bytes);
            }
            return new Options(bytes, tempDir);
        }

        /**
         * Directory of the temporary file, which has no name and goes away with the builder.
         * Default: that of the system, which may be small or in memory.
         *
         * @param dir an existing directory
         * @return the changed options
         */
        public Options tempDir(Path dir) {
            return new Options(memoryLimit, dir.toAbsolutePath().toString());
        }
    }

    /**
     * Starts a partition with default options.
     *
     * @param schema the fields of the documents
     * @return the builder; close it
     */
    public static PartitionBuilder create(Schema schema) {
        return create(schema, Options.defaults());
    }

    /**
     * Starts a partition.
     *
     * @param schema the fields of the documents
     * @param options the options
     * @return the builder; close it
     */
    public static PartitionBuilder create(Schema schema, Options options) {
        Native.closeLeaks();
        long id = Native.partitionBuilderCreate(
                schema.toToml(), options.memoryLimit, options.tempDir);
        return new PartitionBuilder(new Native(Native.Kind.PARTITION_BUILDER, id));
    }

    /**
     * Adds a document, which may be changed afterwards. If it is refused, the builder has the same
     * documents as before.
     *
     * @param document the document
     * @throws IllegalArgumentException if it does not fit the schema, or a limit is reached
     */
    public void add(Document document) {
        Packed packed = new Packed(256);
        document.pack(packed);
        handle.partitionBuilderAdd(handle.id, packed.bytes, packed.length);
    }

    /**
     * Adds many documents, with a call of native code for about a megabyte of them. If a document
     * is refused, those before it were added: {@link #size} shows which one it was.
     *
     * @param documents the documents; the same object may be returned for each, with other values
     * @throws IllegalArgumentException if one does not fit the schema, or a limit is reached
     */
    public void addAll(Iterable<Document> documents) {
        Packed.passAll(
                documents, Document::pack,
                (bytes, length) -> handle.partitionBuilderAdd(handle.id, bytes, length));
    }

    /**
     * The number of documents added.
     *
     * @return how many there are
     */
    public long size() {
        return handle.partitionBuilderLength(handle.id);
    }

    /**
     * Memory that the documents use outside of the Java heap.
     *
     * @return a number of bytes
     */
    public long offHeapBytes() {
        return handle.partitionBuilderMemory(handle.id);
    }

    /**
     * The schema, including the fields that documents have added to a dynamic one.
     *
     * @return the schema
     */
    public Schema schema() {
        return Schema.unpack(handle.partitionBuilderSchema(handle.id));
    }

    /**
     * Writes the partition to a separate file, atomically. The builder cannot be used afterwards.
     * A file that exists at this path is replaced. {@link Collection#openFiles} reads such files, and
     * {@link Change#putFile} copies one into a collection.
     *
     * @param path the file
     * @throws NotFoundException if its directory does not exist
     */
    public void write(Path path) {
        Objects.requireNonNull(path, "path");
        handle.partitionBuilderWrite(handle.id, path.toAbsolutePath().toString());
    }

    /** Drops the documents, unless the builder is used up. Has no effect if it is closed. */
    @Override
    public void close() {
        handle.close();
    }
}
