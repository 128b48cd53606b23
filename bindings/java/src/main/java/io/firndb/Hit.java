package io.firndb;

import java.util.List;

/**
 * A match of a query, whose values are read on demand. {@link Hits} reads those of all hits of a
 * page with one call of native code.
 *
 * <p>All methods that read throw {@link IllegalStateException} if the reader is closed,
 * {@link CorruptException} if what they read is damaged, and {@link IllegalArgumentException} if
 * there is no such field, or if it is neither stored nor sortable.
 *
 * @param reader the reader that found it
 * @param id the number of the match, an argument of the reader's methods
 */
public record Hit(CollectionReader reader, long id) {
    /**
     * The partition of a match.
     *
     * @param hit the number of the match
     * @return the position in {@link CollectionReader#partitions}
     */
    public static int partition(long hit) {
        return (int) (hit >>> 32);
    }

    /**
     * The document of a match.
     *
     * @param hit the number of the match
     * @return the number of the document in its partition
     */
    public static int document(long hit) {
        return (int) hit;
    }

    /**
     * The value of a field: see {@link CollectionReader#value}.
     *
     * @param field the name of a stored or sortable field
     * @return the value, or {@code null} if there is none
     */
    public Object value(String field) {
        return reader.value(id, field);
    }

    /**
     * All values of a field, ascending.
     *
     * @param field the name of a stored or sortable field
     * @return the values; empty if there are none
     */
    public List<Object> values(String field) {
        return reader.values(id, field);
    }

    /**
     * The payload.
     *
     * @return the bytes; empty if the document has none
     */
    public byte[] payload() {
        return reader.payload(id);
    }
}
