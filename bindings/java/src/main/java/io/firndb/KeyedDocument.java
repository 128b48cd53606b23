package io.firndb;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/**
 * A document of an {@link Indexer}, and its key. The key is not copied.
 *
 * @param key the key, 1 to 65,535 bytes
 * @param document the document
 */
public record KeyedDocument(byte[] key, Document document) {
    /**
     * A document and its key.
     *
     * @param key the key, 1 to 65,535 bytes
     * @param document the document
     */
    public KeyedDocument {
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(document, "document");
    }

    /**
     * A document and its key.
     *
     * @param key the key, which is stored as UTF-8
     * @param document the document
     */
    public KeyedDocument(String key, Document document) {
        this(bytes(key), document);
    }

    /** The key of a text. */
    static byte[] bytes(String key) {
        Packed.checkUnicode(key);
        return key.getBytes(StandardCharsets.UTF_8);
    }

    void pack(Packed packed) {
        packed.addBytes(key);
        document.pack(packed);
    }
}
