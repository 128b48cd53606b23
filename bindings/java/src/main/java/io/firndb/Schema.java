package io.firndb;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;

/**
 * The fields of the documents of a collection, the order of the documents in a partition, and how
 * payloads are stored. Immutable: each method that changes it returns a changed schema. A schema
 * that contradicts itself is an {@link IllegalArgumentException}.
 *
 * <pre>{@code
 * Schema schema = Schema.of(
 *         Field.of("city", FieldType.STRING).full(),
 *         Field.of("price", FieldType.F64).full().nullable(),
 *         Field.of("tags", FieldType.STRING).filterable().stored().multi());
 * }</pre>
 *
 * <p>{@link #toToml} is the text form that the program {@code firn} reads and writes, too.
 */
public final class Schema {
    // Changes that cross to native code.
    private static final int DYNAMIC = 0;
    private static final int FIELD = 1;
    private static final int ORDER = 2;
    private static final int POINT = 3;
    private static final int PAYLOAD = 4;

    private final String text;
    private final List<Field> fields;
    private final List<Order> order;
    private final List<Point> points;
    private final Payload payload;
    private final boolean isDynamic;

    private Schema(Unpacked from) {
        text = from.nextText();
        List<Field> fields = new ArrayList<>();
        for (int n = from.nextInt(); n > 0; n--) {
            fields.add(Field.unpack(from));
        }
        List<Order> order = new ArrayList<>();
        for (int n = from.nextInt(); n > 0; n--) {
            order.add(new Order(from.nextText(), from.nextByte() != 0));
        }
        List<Point> points = new ArrayList<>();
        for (int n = from.nextInt(); n > 0; n--) {
            points.add(new Point(from.nextText(), from.nextText()));
        }
        this.fields = List.copyOf(fields);
        this.order = List.copyOf(order);
        this.points = List.copyOf(points);
        payload = new Payload(from.nextInt(), from.nextByte() != 0);
        isDynamic = from.nextByte() != 0;
    }

    /** Reads what {@code search/schema.rs} packed. */
    static Schema unpack(byte[] packed) {
        return new Schema(new Unpacked(packed));
    }

    /** The schema of a text form, changed. */
    private static Schema changed(String text, Packed changes) {
        NativeLibrary.load();
        return unpack(Native.schemaChange(text, changes.bytes, changes.length));
    }

    /**
     * Two fields that queries use together, such as latitude and longitude.
     *
     * @param first a field
     * @param second another field
     */
    public record Point(String first, String second) {}

    /**
     * How payloads are stored.
     *
     * @param level the level of zstd, 1 to 19; 0 if payloads are not compressed
     * @param hasDictionary whether a dictionary is trained on the payloads of a partition
     */
    public record Payload(int level, boolean hasDictionary) {
        /**
         * How payloads are stored.
         *
         * @param level the level of zstd, 1 to 19; 0 if payloads are not compressed
         * @param hasDictionary whether a dictionary is trained on the payloads of a partition
         */
        public Payload {
            if (level < 0 || level > 19) {
                throw new IllegalArgumentException(
                        "the zstd level of payloads is " + level + "; use 1 to 19, or 0 for none");
            }
            if (level == 0 && hasDictionary) {
                throw new IllegalArgumentException(
                        "a dictionary is for compressed payloads; give a level of zstd");
            }
        }

        /**
         * Payloads are not compressed, and are read without a copy inside the library.
         *
         * @return the default
         */
        public static Payload raw() {
            return new Payload(0, false);
        }

        /**
         * Payloads are compressed in blocks of about 16 KiB.
         *
         * @param level the level of zstd, 1 to 19
         * @return the form
         */
        public static Payload zstd(int level) {
            return new Payload(level, false);
        }

        /**
         * Payloads are compressed in blocks of about 16 KiB, with a dictionary of up to 64 KiB that
         * is trained on a sample of the payloads of a partition.
         *
         * @param level the level of zstd, 1 to 19
         * @return the form
         */
        public static Payload zstdWithDictionary(int level) {
            return new Payload(level, true);
        }
    }

    /**
     * A schema with these fields.
     *
     * @param fields the fields
     * @return the schema
     * @throws IllegalArgumentException if a field occurs twice, has no role, or has properties that
     *     contradict each other
     */
    public static Schema of(Field... fields) {
        return of(List.of(fields));
    }

    /**
     * A schema with these fields.
     *
     * @param fields the fields
     * @return the schema
     * @throws IllegalArgumentException as {@link #of(Field...)}
     */
    public static Schema of(List<Field> fields) {
        return changed("", packed(fields));
    }

    /**
     * A schema to which documents add fields: the first document that has a value of another field
     * adds it, with the type of the value. Such fields are nullable, and have several values unless
     * the roles include sortable. {@link #add} declares some of the fields.
     *
     * @param role a role of the added fields
     * @param more further roles
     * @return the schema
     */
    public static Schema dynamic(Role role, Role... more) {
        Packed changes = new Packed(2);
        changes.addByte(DYNAMIC);
        changes.addByte(Role.bits(EnumSet.of(role, more)));
        return changed("", changes);
    }

    /**
     * Reads the text form.
     *
     * @param toml the text
     * @return the schema
     * @throws IllegalArgumentException if the text is not a schema; the message has the line
     */
    public static Schema fromToml(String toml) {
        NativeLibrary.load();
        return unpack(Native.schemaRead(toml));
    }

    private static Packed packed(List<Field> fields) {
        Packed changes = new Packed(256);
        for (Field field : fields) {
            changes.addByte(FIELD);
            field.pack(changes);
        }
        return changes;
    }

    /**
     * Adds fields.
     *
     * @param more the fields
     * @return the changed schema
     * @throws IllegalArgumentException as {@link #of(Field...)}
     */
    public Schema add(Field... more) {
        return changed(text, packed(List.of(more)));
    }

    /**
     * Sorts the documents of each partition. Documents with equal keys stay in the order in which
     * they were added. Queries with the same order, or with its first keys, stop early.
     *
     * @param keys the keys, the most significant one first; none for the order of the additions
     * @return the changed schema
     * @throws IllegalArgumentException if there is no such field, or it is not sortable
     */
    public Schema orderBy(Order... keys) {
        Packed changes = new Packed(64);
        changes.addByte(ORDER);
        changes.addInt(keys.length);
        for (Order key : keys) {
            changes.addText(key.field());
            changes.addByte(key.isDescending() ? 1 : 0);
        }
        return changed(text, changes);
    }

    /**
     * Indexes two fields that queries use together, such as latitude and longitude, as points: a
     * query with ranges of both visits few documents that do not match. The fields are numbers or
     * times, filterable and not sortable, and have at most one value per document.
     *
     * @param first a field
     * @param second another field
     * @return the changed schema
     * @throws IllegalArgumentException if a field does not exist or is not fit
     */
    public Schema point(String first, String second) {
        Packed changes = new Packed(64);
        changes.addByte(POINT);
        changes.addText(first);
        changes.addText(second);
        return changed(text, changes);
    }

    /**
     * Sets how payloads are stored.
     *
     * @param payload the form
     * @return the changed schema
     */
    public Schema payload(Payload payload) {
        Packed changes = new Packed(6);
        changes.addByte(PAYLOAD);
        changes.addInt(payload.level());
        changes.addByte(payload.hasDictionary() ? 1 : 0);
        return changed(text, changes);
    }

    /**
     * The fields.
     *
     * @return the fields, in their order; the list cannot be modified
     */
    public List<Field> fields() {
        return fields;
    }

    /**
     * The field with a name.
     *
     * @param name the name
     * @return the field, or {@code null} if there is none
     */
    public Field field(String name) {
        for (Field field : fields) {
            if (field.name().equals(name)) {
                return field;
            }
        }
        return null;
    }

    /**
     * The order of the documents in a partition.
     *
     * @return the keys; empty if documents are in the order in which they were added
     */
    public List<Order> order() {
        return order;
    }

    /**
     * The pairs of fields that are indexed as points.
     *
     * @return the pairs; in each the field that was added first comes first
     */
    public List<Point> points() {
        return points;
    }

    /**
     * How payloads are stored.
     *
     * @return the form
     */
    public Payload payload() {
        return payload;
    }

    /**
     * Whether documents may add fields.
     *
     * @return true if so
     */
    public boolean isDynamic() {
        return isDynamic;
    }

    /**
     * The text form.
     *
     * @return the text, which {@link #fromToml} reads
     */
    public String toToml() {
        return text;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Schema schema && text.equals(schema.text);
    }

    @Override
    public int hashCode() {
        return text.hashCode();
    }

    /** The text form. */
    @Override
    public String toString() {
        return text;
    }
}
