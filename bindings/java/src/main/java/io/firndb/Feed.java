package io.firndb;

import java.nio.ByteBuffer;

/**
 * A feed or single changes in progress: see {@link Indexer#feed} and {@link Indexer#changes}.
 * {@link #finish} applies everything, or nothing if it throws; closing a feed without that discards
 * it. Uses about 32 bytes of memory per document, outside of the Java heap.
 *
 * <pre>{@code
 * try (Feed feed = index.feed("rooms")) {
 *     feed.add("room 1", new Document().set("city", "Oslo"));
 *     feed.add("room 2", new Document().set("city", "Bergen"));
 *     feed.finish();
 * }
 * }</pre>
 *
 * <p>All methods throw {@link IllegalStateException} if the feed or its index is closed.
 */
public final class Feed implements AutoCloseable {
    private final Native handle;
    private double maxRemoved = IndexerOptions.NOT_SET;

    Feed(Native handle) {
        this.handle = handle;
    }

    /**
     * Sets the share of the documents of its source that the feed may remove. Default: that of
     * {@link IndexerOptions#maxRemoved}. Single changes are not limited.
     *
     * @param share 0 to 1; 1 allows any number
     * @return this feed
     */
    public Feed maxRemoved(double share) {
        maxRemoved = IndexerOptions.checkedShare(share);
        return this;
    }

    /**
     * Adds or replaces the document of a key. A feed can continue after a document was refused. Of
     * several documents of a key, the last one is used.
     *
     * @param key the key, 1 to 65,535 bytes
     * @param document the document, which may be changed afterwards
     * @throws IllegalArgumentException if the document does not fit the schema
     */
    public void add(byte[] key, Document document) {
        add(new KeyedDocument(key, document));
    }

    /**
     * Adds or replaces the document of a key. A feed can continue after a document was refused. Of
     * several documents of a key, the last one is used.
     *
     * @param key the key, which is stored as UTF-8
     * @param document the document, which may be changed afterwards
     * @throws IllegalArgumentException if the document does not fit the schema
     */
    public void add(String key, Document document) {
        add(new KeyedDocument(key, document));
    }

    /**
     * Adds or replaces the document of a key. A feed can continue after a document was refused. Of
     * several documents of a key, the last one is used.
     *
     * @param key the key: the bytes from the position of the buffer to its limit
     * @param document the document, which may be changed afterwards
     * @throws IllegalArgumentException if the document does not fit the schema
     */
    public void add(ByteBuffer key, Document document) {
        add(new KeyedDocument(Buffers.copy(key), document));
    }

    private void add(KeyedDocument document) {
        Packed packed = new Packed(256);
        document.pack(packed);
        handle.feedAdd(handle.id, packed.bytes, packed.length);
    }

    /**
     * Sets the documents of many keys, with a call of native code for about a megabyte of them. If
     * a document is refused, those before it were added.
     *
     * @param documents the documents and their keys
     * @throws IllegalArgumentException if a document does not fit the schema
     */
    public void addAll(Iterable<KeyedDocument> documents) {
        Packed.passAll(
                documents, KeyedDocument::pack,
                (bytes, length) -> handle.feedAdd(handle.id, bytes, length));
    }

    /**
     * Removes the document of a key. Has no effect if the source has none. Not needed in a feed,
     * which removes absent keys.
     *
     * @param key the key
     */
    public void remove(byte[] key) {
        handle.feedRemove(handle.id, key, key.length);
    }

    /**
     * Removes the document of a key. Has no effect if the source has none. Not needed in a feed,
     * which removes absent keys.
     *
     * @param key the key, as UTF-8
     */
    public void remove(String key) {
        remove(KeyedDocument.bytes(key));
    }

    /**
     * Removes the document of a key. Has no effect if the source has none. Not needed in a feed,
     * which removes absent keys.
     *
     * @param key the key: the bytes from the position of the buffer to its limit
     */
    public void remove(ByteBuffer key) {
        remove(Buffers.copy(key));
    }

    /**
     * Reports rows that the program skipped because it could not use them. The feed then removes
     * nothing unless a share is set, because the missing documents may be those of these rows.
     *
     * @param rows how many
     */
    public void leftOut(long rows) {
        if (rows < 0) {
            throw new IllegalArgumentException("a number of rows is negative: " + rows);
        }
        handle.feedLeftOut(handle.id, rows);
    }

    /**
     * Applies all changes and ends the feed. When this returns, they survive power loss.
     *
     * @return what has changed
     * @throws IllegalArgumentException if the feed would remove more documents than it may; then
     *     nothing was changed
     */
    public Indexer.Applied finish() {
        try {
            return Indexer.Applied.of(new Unpacked(handle.feedFinish(handle.id, maxRemoved)));
        } finally {
            handle.close();
        }
    }

    /** Discards the feed, unless it is finished. Has no effect if it is closed. */
    @Override
    public void close() {
        handle.close();
    }
}
