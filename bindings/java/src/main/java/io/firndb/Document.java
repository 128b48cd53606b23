package io.firndb;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A document of a collection: values of fields, and a payload, which queries return unchanged.
 * Mutable, for one thread at a time. Arrays and buffers are copied.
 *
 * <pre>{@code
 * Document room = new Document().set("city", "Oslo").set("price", 80.0)
 *         .add("tags", "sea").add("tags", "new").payload(json);
 * }</pre>
 *
 * <p>A value is a {@link Boolean}, an integer ({@link Byte}, {@link Short}, {@link Integer},
 * {@link Long}, {@link BigInteger}), a {@link Float} or {@link Double}, a {@link String}, a
 * {@code byte[]} or {@link ByteBuffer}, or an {@link Instant}, which is rounded down to a
 * microsecond. Numbers become the type of the field if that loses nothing; a text for a timestamp
 * is read as a time.
 */
public final class Document {
    private static final byte[] NONE = {};

    /** A value by the name of its field, or a {@link Several}. */
    private final Map<String, Object> values = new LinkedHashMap<>();
    private byte[] payload = NONE;

    /** The values of a field for which {@link #add} was called more than once. */
    private static final class Several {
        final List<Object> values = new ArrayList<>();
    }

    /** Creates a document without values and with an empty payload. */
    public Document() {}

    /**
     * A document with these values.
     *
     * @param values the values by the names of their fields, as {@link #set} takes them
     * @return the document
     */
    public static Document of(Map<String, ?> values) {
        Document document = new Document();
        values.forEach(document::set);
        return document;
    }

    /**
     * Sets the value of a field, in place of those that it had.
     *
     * @param field the name of the field
     * @param value the value; {@code null} for none; a {@link Iterable} for several
     * @return this document
     * @throws IllegalArgumentException if the value is of another class
     */
    public Document set(String field, Object value) {
        checkName(field);
        if (value instanceof Iterable<?> several) {
            Several all = new Several();
            several.forEach(one -> all.values.add(Values.canonical(one)));
            values.put(field, all);
        } else if (value == null) {
            values.remove(field);
        } else {
            values.put(field, Values.canonical(value));
        }
        return this;
    }

    /**
     * Adds a value to a field, which may have several: they form a set, so order and repetitions do
     * not matter.
     *
     * @param field the name of the field
     * @param value the value
     * @return this document
     * @throws IllegalArgumentException if the value is {@code null} or of another class
     */
    public Document add(String field, Object value) {
        checkName(field);
        Object added = Values.canonical(value);
        Object old = values.putIfAbsent(field, added);
        if (old instanceof Several several) {
            several.values.add(added);
        } else if (old != null) {
            Several both = new Several();
            both.values.add(old);
            both.values.add(added);
            values.put(field, both);
        }
        return this;
    }

    /**
     * Sets the payload.
     *
     * @param bytes the payload
     * @return this document
     */
    public Document payload(byte[] bytes) {
        payload = bytes.clone();
        return this;
    }

    /**
     * Sets the payload: the bytes from the position of a buffer to its limit.
     *
     * @param bytes the payload; the buffer is left as it is
     * @return this document
     */
    public Document payload(ByteBuffer bytes) {
        payload = Buffers.copy(bytes);
        return this;
    }

    /**
     * The payload.
     *
     * @return a copy; empty if none was set
     */
    public byte[] payload() {
        return payload.clone();
    }

    /**
     * The values of a field.
     *
     * @param field the name of the field
     * @return the values, in the order in which they were added
     */
    public List<Object> values(String field) {
        Object value = values.get(field);
        if (value == null) {
            return List.of();
        }
        List<Object> all = value instanceof Several several ? several.values : List.of(value);
        return all.stream().map(Values::canonical).toList();
    }

    /**
     * Removes all values and the payload, to use the object for another document.
     *
     * @return this document
     */
    public Document clear() {
        values.clear();
        payload = NONE;
        return this;
    }

    private static void checkName(String field) {
        if (field == null) {
            throw new IllegalArgumentException("the name of a field is null");
        }
    }

    /** Adds the document to what crosses to native code. */
    void pack(Packed packed) {
        packed.addBytes(payload);
        int countAt = packed.length;
        packed.addInt(0);
        int count = 0;
        for (Map.Entry<String, Object> entry : values.entrySet()) {
            if (entry.getValue() instanceof Several several) {
                for (Object value : several.values) {
                    packed.addText(entry.getKey());
                    Values.pack(packed, value);
                }
                count += several.values.size();
            } else {
                packed.addText(entry.getKey());
                Values.pack(packed, entry.getValue());
                count++;
            }
        }
        packed.setInt(countAt, count);
    }

    /** The values by the names of their fields, and the length of the payload. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Document[");
        values.forEach((field, value) -> text.append(field).append('=').append(shown(value))
                .append(", "));
        return text.append("payload of ").append(payload.length).append(" bytes]").toString();
    }

    private static Object shown(Object value) {
        if (value instanceof Several several) {
            return several.values.stream().map(Document::shown).toList();
        }
        return value instanceof byte[] bytes ? Arrays.toString(bytes) : value;
    }
}
