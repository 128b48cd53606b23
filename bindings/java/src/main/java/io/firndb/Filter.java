package io.firndb;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.Objects;

/**
 * A condition on documents. Immutable. It is made by the static functions of this class, which are
 * imported as follows, or from its text form by {@link #parse}.
 *
 * <pre>{@code
 * import static io.firndb.Filter.*;
 *
 * Filter filter = and(eq("city", "Oslo"), lt("price", 20), not(exists("sold")));
 * }</pre>
 *
 * <p>A document matches a condition on a field if any of its values of that field does. A document
 * without a value of the field matches no such condition, and therefore matches the negation of
 * each.
 *
 * <p>Values are {@link Boolean}, {@link Byte}, {@link Short}, {@link Integer}, {@link Long},
 * {@link java.math.BigInteger} of at most 64 bits, {@link Float}, {@link Double}, {@link String},
 * {@code byte[]} and {@link java.time.Instant}. Numbers of different types are compared exactly.
 * Whether a value fits the type of the field is checked when the filter is used; any other class
 * of value is an {@link IllegalArgumentException} of the function.
 */
public final class Filter {
    /** The first byte of an argument: see {@link #tag}. */
    private static final byte TREE = 1;
    private static final byte DEEP_TREE = 2;
    /** Levels for which every stack has room. */
    private static final int SHALLOW = 16;

    /** The tags of conditions on the native side. */
    private static final int ALL = 0;
    private static final int COMPARE = 1;
    private static final int IN = 2;
    private static final int BETWEEN = 3;
    private static final int PREFIX = 4;
    private static final int EXISTS = 5;
    private static final int AND = 6;
    private static final int OR = 7;
    private static final int NOT = 8;

    /** The numbers of comparisons on the native side. */
    private static final int EQ = 0;
    private static final int LT = 1;
    private static final int LTE = 2;
    private static final int GT = 3;
    private static final int GTE = 4;

    /** The depth that a filter cannot have; the text form allows no more. */
    private static final int MAX_DEPTH = 128;

    private static final Filter EVERYTHING = new Filter(new byte[] {ALL}, 1);

    /** The condition as native code reads it. The parts of a condition follow it. */
    final byte[] packed;
    /** Levels of nesting, which are limited because native code reads conditions by recursion. */
    private final int depth;

    Filter(byte[] packed, int depth) {
        this.packed = packed;
        this.depth = depth;
    }

    /**
     * Every document.
     *
     * @return the filter
     */
    public static Filter all() {
        return EVERYTHING;
    }

    /**
     * A value of the field is equal to a value.
     *
     * @param field the name of a filterable field
     * @param value the value
     * @return the filter
     */
    public static Filter eq(String field, Object value) {
        return compare(field, EQ, value);
    }

    /**
     * A value of the field is greater than a value.
     *
     * @param field the name of a filterable field
     * @param value the value
     * @return the filter
     */
    public static Filter gt(String field, Object value) {
        return compare(field, GT, value);
    }

    /**
     * A value of the field is greater than a value or equal to it.
     *
     * @param field the name of a filterable field
     * @param value the value
     * @return the filter
     */
    public static Filter gte(String field, Object value) {
        return compare(field, GTE, value);
    }

    /**
     * A value of the field is less than a value.
     *
     * @param field the name of a filterable field
     * @param value the value
     * @return the filter
     */
    public static Filter lt(String field, Object value) {
        return compare(field, LT, value);
    }

    /**
     * A value of the field is less than a value or equal to it.
     *
     * @param field the name of a filterable field
     * @param value the value
     * @return the filter
     */
    public static Filter lte(String field, Object value) {
        return compare(field, LTE, value);
    }

    private static Filter compare(String field, int operator, Object value) {
        Packed packed = start(COMPARE, field);
        packed.addByte(operator);
        Values.pack(packed, value);
        return leaf(packed);
    }

    /**
     * A value of the field is one of several values.
     *
     * @param field the name of a filterable field
     * @param values the values; without any, no document matches
     * @return the filter
     */
    public static Filter in(String field, Object... values) {
        return in(field, Arrays.asList(values));
    }

    /**
     * A value of the field is one of several values.
     *
     * @param field the name of a filterable field
     * @param values the values; without any, no document matches
     * @return the filter
     */
    public static Filter in(String field, Collection<?> values) {
        Object[] copy = values.toArray();
        Packed packed = start(IN, field);
        packed.addInt(copy.length);
        for (Object value : copy) {
            Values.pack(packed, value);
        }
        return leaf(packed);
    }

    /**
     * A single value of the field is in a range, bounds included. For a field with several values,
     * this differs from {@code and(gte(field, low), lte(field, high))}, which two values may
     * satisfy.
     *
     * @param field the name of a filterable field
     * @param low the lower bound
     * @param high the upper bound; if it is less than {@code low}, no document matches
     * @return the filter
     */
    public static Filter between(String field, Object low, Object high) {
        Packed packed = start(BETWEEN, field);
        Values.pack(packed, low);
        Values.pack(packed, high);
        return leaf(packed);
    }

    /**
     * A value of the field starts with a text.
     *
     * @param field the name of a filterable field of strings or bytes
     * @param prefix the text
     * @return the filter
     */
    public static Filter prefix(String field, String prefix) {
        return prefixed(field, prefix);
    }

    /**
     * A value of the field starts with some bytes.
     *
     * @param field the name of a filterable field of bytes
     * @param prefix the bytes
     * @return the filter
     */
    public static Filter prefix(String field, byte[] prefix) {
        return prefixed(field, prefix);
    }

    private static Filter prefixed(String field, Object prefix) {
        Packed packed = start(PREFIX, field);
        Values.pack(packed, prefix);
        return leaf(packed);
    }

    /**
     * The document has a value of the field; {@code not(exists(field))} finds those without.
     *
     * @param field the name of a filterable field
     * @return the filter
     */
    public static Filter exists(String field) {
        return leaf(start(EXISTS, field));
    }

    /**
     * All of the conditions hold. Conditions that are themselves made by {@code and} are joined, so
     * that they add no level of nesting.
     *
     * @param conditions the conditions; without any, every document matches
     * @return the filter
     * @throws IllegalArgumentException if conditions are nested more than 127 levels deep
     */
    public static Filter and(Filter... conditions) {
        return conditions.length == 0 ? EVERYTHING : join(AND, conditions);
    }

    /**
     * One of the conditions holds. Conditions that are themselves made by {@code or} are joined, so
     * that they add no level of nesting.
     *
     * @param conditions the conditions; without any, no document matches
     * @return the filter
     * @throws IllegalArgumentException if conditions are nested more than 127 levels deep
     */
    public static Filter or(Filter... conditions) {
        return conditions.length == 0 ? not(EVERYTHING) : join(OR, conditions);
    }

    private static Filter join(int tag, Filter... conditions) {
        if (conditions.length == 1) {
            return conditions[0];
        }
        Packed parts = new Packed(64);
        int count = 0;
        int depth = 0;
        for (Filter condition : conditions) {
            boolean isSame = condition.packed[0] == tag;
            int skipped = isSame ? 5 : 0; // The tag and the number of parts.
            parts.addRaw(condition.packed, skipped, condition.packed.length - skipped);
            count += isSame ? Packed.intAt(condition.packed, 1) : 1;
            depth = Math.max(depth, isSame ? condition.depth - 1 : condition.depth);
        }
        Packed packed = new Packed(parts.length + 5);
        packed.addByte(tag);
        packed.addInt(count);
        packed.addRaw(parts.bytes, 0, parts.length);
        return nested(packed, depth + 1);
    }

    /**
     * The condition does not hold.
     *
     * @param condition the condition
     * @return the filter
     * @throws IllegalArgumentException if conditions are nested more than 127 levels deep
     */
    public static Filter not(Filter condition) {
        Packed packed = new Packed(condition.packed.length + 1);
        packed.addByte(NOT);
        packed.addRaw(condition.packed);
        return nested(packed, condition.depth + 1);
    }

    /**
     * Reads the text form of a condition, such as {@code price < 10 and city in ('Oslo', 'Voss')};
     * the guide of collections describes it. The names and values are checked when the filter is
     * used.
     *
     * @param text the text
     * @return the filter
     * @throws IllegalArgumentException if the text is not a condition; the message marks the place
     */
    public static Filter parse(String text) {
        NativeLibrary.load();
        byte[] argument = Query.packText(text);
        Unpacked found = new Unpacked(Native.filterParse(argument, argument.length));
        int depth = found.nextInt();
        return new Filter(found.rest(), depth);
    }

    private static Packed start(int tag, String field) {
        Packed packed = new Packed(32);
        packed.addByte(tag);
        packed.addText(Objects.requireNonNull(field, "field"));
        return packed;
    }

    private static Filter leaf(Packed packed) {
        return nested(packed, 1);
    }

    private static Filter nested(Packed packed, int depth) {
        if (depth >= MAX_DEPTH) {
            throw new IllegalArgumentException(
                    "the condition is nested more than " + (MAX_DEPTH - 1) + " deep");
        }
        return new Filter(Arrays.copyOf(packed.bytes, packed.length), depth);
    }

    /** The first byte of an argument: native code needs a large stack for many levels. */
    byte tag() {
        return depth > SHALLOW ? DEEP_TREE : TREE;
    }

    /** The argument of a native method for this filter. */
    byte[] argument() {
        byte[] argument = new byte[packed.length + 1];
        argument[0] = tag();
        System.arraycopy(packed, 0, argument, 1, packed.length);
        return argument;
    }

    /**
     * The text form, which {@link #parse} reads back.
     *
     * @return the text
     */
    @Override
    public String toString() {
        NativeLibrary.load();
        byte[] argument = argument();
        return new String(
                Native.filterText(argument, argument.length), StandardCharsets.UTF_8);
    }

    /**
     * Whether an object is the same filter. Filters that find the same documents may be different:
     * {@code eq("a", 1)} and {@code in("a", 1)} are.
     *
     * @param other the object
     * @return true if it consists of the same conditions in the same order
     */
    @Override
    public boolean equals(Object other) {
        return other instanceof Filter filter && Arrays.equals(packed, filter.packed);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(packed);
    }
}
