package io.firndb;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * A page of matches, in the order of the query. Holds 8 bytes per hit; values and payloads are read
 * on demand, those of all hits with one call of native code.
 *
 * <pre>{@code
 * Hits hits = reader.search(Query.where(lt("price", 20)).orderBy(asc("price")).limit(20));
 * for (Hit hit : hits) {
 *     System.out.println(hit.value("city"));
 * }
 * List<byte[]> payloads = hits.payloads();
 * }</pre>
 *
 * <p>All methods that read throw {@link IllegalStateException} if the reader is closed,
 * {@link CorruptException} if what they read is damaged, and {@link IllegalArgumentException} if
 * there is no such field, or if it is neither stored nor sortable.
 */
public final class Hits implements Iterable<Hit> {
    /** The place of the first hit in {@link #found}. */
    private static final int FIRST = 1;

    private final CollectionReader reader;
    /** The query, as native code reads it. */
    private final byte[] query;
    /** The number of all matches, or -1, and after it the hits. */
    private final long[] found;

    Hits(CollectionReader reader, byte[] query, long[] found) {
        this.reader = reader;
        this.query = query;
        this.found = found;
    }

    /**
     * The number of hits on this page.
     *
     * @return how many there are
     */
    public int size() {
        return found.length - FIRST;
    }

    /**
     * Whether the page has no hits.
     *
     * @return true if it has none
     */
    public boolean isEmpty() {
        return size() == 0;
    }

    /**
     * The number of a hit, an argument of the reader's methods.
     *
     * @param index the position on the page
     * @return the partition in the upper 32 bits, the document in the lower
     * @throws IndexOutOfBoundsException if there is no such hit
     */
    public long hit(int index) {
        Objects.checkIndex(index, size());
        return found[FIRST + index];
    }

    /**
     * The numbers of all hits.
     *
     * @return a copy
     */
    public long[] hits() {
        return Arrays.copyOfRange(found, FIRST, found.length);
    }

    /**
     * A hit as an object.
     *
     * @param index the position on the page
     * @return the hit
     * @throws IndexOutOfBoundsException if there is no such hit
     */
    public Hit get(int index) {
        return new Hit(reader, hit(index));
    }

    /**
     * The hits as objects.
     *
     * @return an iterator
     */
    @Override
    public Iterator<Hit> iterator() {
        return new Iterator<>() {
            private int at;

            @Override
            public boolean hasNext() {
                return at < size();
            }

            @Override
            public Hit next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return get(at++);
            }
        };
    }

    /**
     * The hits as objects.
     *
     * @return a stream
     */
    public Stream<Hit> stream() {
        return Arrays.stream(found, FIRST, found.length).mapToObj(hit -> new Hit(reader, hit));
    }

    /**
     * The number of all matches of the filter, on this page and others.
     *
     * @return the number; empty unless the query was made by {@link Query#withCount}
     */
    public OptionalLong total() {
        return found[0] < 0 ? OptionalLong.empty() : OptionalLong.of(found[0]);
    }

    /**
     * The token of the next page, for {@link Query#after}. It is a short text without characters
     * that URLs escape, and stays valid when the collection changes. Each call makes it.
     *
     * @return the token; {@code null} if this is the last page, which has fewer hits than the limit
     */
    public String next() {
        if (isEmpty()) {
            return null;
        }
        return reader.token(query, size(), found[found.length - 1]);
    }

    /**
     * The payloads of all hits.
     *
     * @return the payload of each hit, in order; empty bytes for a document without one
     */
    public List<byte[]> payloads() {
        byte[][] payloads = new byte[size()][];
        for (int done = 0; done < payloads.length; ) {
            Unpacked packed = new Unpacked(reader.payloads(found, FIRST + done));
            while (!packed.isOver()) {
                payloads[done++] = packed.nextBytes();
            }
        }
        return Arrays.asList(payloads);
    }

    /**
     * The values of a field of all hits.
     *
     * @param field the name of a stored or sortable field
     * @return for each hit, in order, its value or {@code null}; for a multi-valued field a
     *     {@code List<Object>}, which is empty if there is no value
     */
    public List<Object> values(String field) {
        List<Object> values = new ArrayList<>(size());
        forEachBlock(List.of(field), columns -> values.addAll(Arrays.asList(columns[0])));
        return values;
    }

    /**
     * Some fields of all hits.
     *
     * @param fields the names of stored or sortable fields
     * @return for each hit, in order, a map from the names to what {@link #values} returns for them
     */
    public List<Map<String, Object>> rows(String... fields) {
        List<String> names = List.of(fields);
        List<Map<String, Object>> rows = new ArrayList<>(size());
        forEachBlock(names, columns -> {
            for (int i = 0; i < columns[0].length; i++) {
                Map<String, Object> row = new LinkedHashMap<>();
                for (int field = 0; field < columns.length; field++) {
                    row.put(names.get(field), columns[field][i]);
                }
                rows.add(row);
            }
        });
        return rows;
    }

    /** Calls a function with the values of consecutive hits: an array for each field. */
    private void forEachBlock(List<String> fields, Consumer<Object[][]> function) {
        if (fields.isEmpty()) {
            throw new IllegalArgumentException("there are no fields to read");
        }
        Packed names = new Packed(64);
        fields.forEach(names::addText);
        int done = 0;
        do {
            Unpacked packed = new Unpacked(reader.columns(found, FIRST + done, names));
            while (!packed.isOver()) {
                int count = packed.nextInt();
                Object[][] columns = new Object[fields.size()][];
                for (int field = 0; field < columns.length; field++) {
                    columns[field] = column(packed, count);
                }
                function.accept(columns);
                done += count;
            }
        } while (done < size());
    }

    private static Object[] column(Unpacked packed, int count) {
        boolean isMultiValued = packed.nextByte() != 0;
        Object[] column = new Object[count];
        for (int i = 0; i < count; i++) {
            column[i] = isMultiValued ? packed.nextValues() : packed.nextValue();
        }
        return column;
    }

    /**
     * The values of a field of strings of all hits.
     *
     * @param field the name of a stored or sortable field of strings with single values
     * @return for each hit, in order, its value or {@code null}
     * @throws IllegalArgumentException if the field is of another type
     */
    public List<String> strings(String field) {
        List<Object> values = values(field);
        List<String> strings = new ArrayList<>(values.size());
        for (Object value : values) {
            if (value != null && !(value instanceof String)) {
                throw new IllegalArgumentException(
                        "field `" + field + "` has no single strings: read it by `values`");
            }
            strings.add((String) value);
        }
        return strings;
    }

    /**
     * The values of a field of integers or times of all hits, without objects.
     *
     * @param field the name of a stored or sortable field of type {@code i64}, {@code u64} or
     *     {@code timestamp}
     * @param absent what stands for no value
     * @return for each hit, in order, its value, the smallest one if there are several; times are
     *     microseconds since 1970
     * @throws IllegalArgumentException if the field is of another type, or if a value is greater than
     *     {@link Long#MAX_VALUE}
     */
    public long[] longs(String field, long absent) {
        return reader.numbers(found, FIRST, field, false, absent);
    }

    /**
     * The values of a field of type {@code f64} of all hits, without objects.
     *
     * @param field the name of a stored or sortable field
     * @return for each hit, in order, its value, the smallest one if there are several;
     *     {@link Double#NaN}, which no field can have, if there is none
     * @throws IllegalArgumentException if the field is of another type
     */
    public double[] doubles(String field) {
        long absent = Double.doubleToRawLongBits(Double.NaN);
        long[] bits = reader.numbers(found, FIRST, field, true, absent);
        double[] doubles = new double[bits.length];
        for (int i = 0; i < bits.length; i++) {
            doubles[i] = Double.longBitsToDouble(bits[i]);
        }
        return doubles;
    }

    /**
     * The number of hits, and of all matches if they were counted.
     *
     * @return a text
     */
    @Override
    public String toString() {
        return size() + " hits" + (found[0] < 0 ? "" : " of " + found[0]);
    }
}
