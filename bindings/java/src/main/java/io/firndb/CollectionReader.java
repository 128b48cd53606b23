package io.firndb;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.LongPredicate;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * One version of a collection, which never changes: filters, sorts, counts, facets and groups its
 * documents. Any number of threads may use it. Close it: it keeps its files open.
 *
 * <pre>{@code
 * try (CollectionReader reader = collection.reader()) {
 *     Hits hits = reader.search(Query.where(lt("price", 20)).orderBy(asc("price")).limit(10));
 *     List<byte[]> payloads = hits.payloads();
 *     long rooms = reader.count("city = 'Oslo' and price < 20");
 * }
 * }</pre>
 *
 * <p>Queries and conditions are objects, {@link Query} and {@link Filter}, or texts in the language
 * that the guide of collections describes. They throw {@link IllegalArgumentException} if they do
 * not fit the schema; for a text, the message marks the place. A match is the number of its
 * partition in the upper 32 bits of a {@code long} and the number of the document in the lower:
 * {@link Hits} and {@link Hit} read its values, and so do the methods of this class that take it.
 *
 * <p>All methods throw {@link IllegalStateException} if the reader is closed, and
 * {@link CorruptException} if what they read is damaged. Queries use the thread of the caller.
 */
public final class CollectionReader implements AutoCloseable {
    private final Native handle;

    CollectionReader(Native handle) {
        this.handle = handle;
    }

    /** What {@link #with} changes; the numbers are those of the native side. */
    private enum Setting {
        THREADS, TIMEOUT, GROUP_LIMIT, BUNDLE_LIMIT
    }

    /**
     * Another reader of the same documents, whose queries share the work among threads if they are
     * long enough to gain from it. By default a query has one thread, which is best for a server
     * that runs many queries at a time. The results do not depend on it.
     *
     * @param threads the largest number of threads of a query
     * @return the reader, which must be closed, too
     * @throws IllegalArgumentException if the number is not positive
     */
    public CollectionReader withThreads(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("a query has at least one thread, not " + threads);
        }
        return with(Setting.THREADS, threads);
    }

    /**
     * Another reader of the same documents, whose queries throw {@link CancelledException} if they
     * take longer than this. It applies to each call of a method that takes a query or a filter, and
     * to {@link #warm}.
     *
     * @param timeout the largest time of a call
     * @return the reader, which must be closed, too
     * @throws IllegalArgumentException if the time is negative
     */
    public CollectionReader withTimeout(Duration timeout) {
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("the timeout is negative: " + timeout);
        }
        long nanos;
        try {
            nanos = timeout.toNanos();
        } catch (ArithmeticException e) {
            nanos = Long.MAX_VALUE;
        }
        return with(Setting.TIMEOUT, nanos);
    }

    /**
     * Another reader of the same documents, whose queries throw {@link IllegalArgumentException}
     * rather than find more than this many groups, or distinct values of a facet, all of which take
     * memory: some hundred bytes per group and aggregate. By default there is no limit.
     *
     * @param groups the largest number of groups
     * @return the reader, which must be closed, too
     * @throws IllegalArgumentException if the number is negative
     */
    public CollectionReader withGroupLimit(long groups) {
        return with(Setting.GROUP_LIMIT, notNegative(groups));
    }

    /**
     * Another reader of the same documents, whose queries start to build a bundle of small partitions
     * in memory only while the bundles of the collection take less than this many bytes. By default
     * these are 256 MiB.
     *
     * @param bytes the limit; with 0 no bundles are built
     * @return the reader, which must be closed, too
     * @throws IllegalArgumentException if the number is negative
     */
    public CollectionReader withBundleLimit(long bytes) {
        return with(Setting.BUNDLE_LIMIT, notNegative(bytes));
    }

    private static long notNegative(long limit) {
        if (limit < 0) {
            throw new IllegalArgumentException("the limit is negative: " + limit);
        }
        return limit;
    }

    private CollectionReader with(Setting setting, long number) {
        return of(handle.readerWith(handle.id, setting.ordinal(), number));
    }

    /**
     * A reader of some of the partitions. Opens no file. Its hits and page tokens are its own.
     *
     * @param names the names of the partitions
     * @return the reader, which must be closed, too
     * @throws NotFoundException if there is no partition of a name
     */
    public CollectionReader withPartitions(Collection<String> names) {
        Packed packed = new Packed(64);
        names.forEach(packed::addText);
        return of(handle.readerWithPartitions(handle.id, packed.bytes, packed.length));
    }

    /** The reader of a handle. */
    private static CollectionReader of(long id) {
        return new CollectionReader(new Native(Native.Kind.COLLECTION_READER, id));
    }

    /**
     * The fields of all partitions.
     *
     * @return the schema
     */
    public Schema schema() {
        return Schema.unpack(handle.readerSchema(handle.id));
    }

    /**
     * The number of documents.
     *
     * @return how many there are
     */
    public long size() {
        return handle.readerLength(handle.id);
    }

    /**
     * The partitions, in the order of their names.
     *
     * @return the partitions; {@link Hit#partition} is a position in the list
     */
    public List<Partition> partitions() {
        Unpacked packed = new Unpacked(handle.readerPartitions(handle.id));
        List<Partition> partitions = new ArrayList<>();
        while (!packed.isOver()) {
            partitions.add(
                    new Partition(packed.nextText(), packed.nextLong(), packed.nextLong()));
        }
        return partitions;
    }

    /**
     * A partition.
     *
     * @param name the name
     * @param documents the number of documents
     * @param bytes the size of the file
     */
    public record Partition(String name, long documents, long bytes) {}

    /**
     * Finds a page of documents.
     *
     * @param query the query
     * @return the matches
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public Hits search(Query query) {
        return search(query.argument());
    }

    /**
     * Finds a page of documents.
     *
     * @param query a text such as {@code price < 20 order by price limit 10}
     * @return the matches
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public Hits search(String query) {
        return search(Query.packText(query));
    }

    private Hits search(byte[] query) {
        return new Hits(this, query, handle.readerSearch(handle.id, query, query.length));
    }

    /**
     * Calls a visitor with each match in the order of the query, until it returns false. Memory does
     * not grow with the number of matches.
     *
     * @param query the query
     * @param visitor receives the matches, on this thread
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows; the time of the
     *     visitor counts
     */
    public void forEach(Query query, HitVisitor visitor) {
        forEach(query.argument(), visitor);
    }

    /**
     * Calls a visitor with each match in the order of the query: see
     * {@link #forEach(Query, HitVisitor)}.
     *
     * @param query a text such as {@code price < 20 order by price}
     * @param visitor receives the matches, on this thread
     */
    public void forEach(String query, HitVisitor visitor) {
        forEach(Query.packText(query), visitor);
    }

    private void forEach(byte[] query, HitVisitor visitor) {
        Objects.requireNonNull(visitor, "visitor");
        LongPredicate each = hit -> visitor.visit(this, hit);
        handle.readerForEach(handle.id, query, query.length, each);
    }

    /**
     * All matches in the order of the query, which are found a thousand at a time. Memory does not
     * grow with their number.
     *
     * @param query the query
     * @return a stream, which reads from this reader
     * @throws CancelledException if finding the first matches takes longer than {@link #withTimeout}
     *     allows; the stream throws it as well
     */
    public Stream<Hit> stream(Query query) {
        int traits = Spliterator.ORDERED | Spliterator.NONNULL | Spliterator.IMMUTABLE
                | Spliterator.DISTINCT;
        return StreamSupport.stream(
                Spliterators.spliteratorUnknownSize(new Scan(query), traits), false);
    }

    /** Iterates over all matches of a query, page by page. */
    private final class Scan implements Iterator<Hit> {
        private static final int PAGE = 1000;

        private final Query query;
        /** The matches that the query still allows after this page. */
        private long left;
        private Hits page;
        private int at;

        Scan(Query query) {
            this.query = query;
            left = query.limit().orElse(Long.MAX_VALUE);
            read(query.skip(), query.token());
        }

        private void read(long skip, String token) {
            page = search(query.page(skip, Math.min(left, PAGE), token));
            left -= page.size();
            at = 0;
        }

        @Override
        public boolean hasNext() {
            if (at == page.size() && left > 0) {
                String token = page.next();
                if (token == null) {
                    return false;
                }
                read(0, token);
            }
            return at < page.size();
        }

        @Override
        public Hit next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return page.get(at++);
        }
    }

    /**
     * Counts the documents that match a filter.
     *
     * @param filter the filter
     * @return how many there are
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public long count(Filter filter) {
        return count(filter.argument());
    }

    /**
     * Counts the documents that match a condition.
     *
     * @param condition a text such as {@code price < 20 and city = 'Oslo'}
     * @return how many there are
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public long count(String condition) {
        return count(Query.packText(condition));
    }

    /**
     * Counts the documents that match the filter of a query, as {@link Query#withCount} does. Its
     * limit, skipped matches and token do not change the count.
     *
     * @param query the query
     * @return how many there are
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public long count(Query query) {
        return count(query.filter());
    }

    private long count(byte[] filter) {
        return handle.readerCount(handle.id, filter, filter.length);
    }

    /**
     * Counts the matches of a filter by the values of fields.
     *
     * @param filter the filter
     * @param facets the fields, and how many values of each
     * @return the counts of each field, in the order of the arguments
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public List<FacetCounts> facets(Filter filter, Facet... facets) {
        return facets(filter.argument(), facets);
    }

    /**
     * Counts the matches of a condition by the values of fields.
     *
     * @param condition a text; empty for all documents
     * @param facets the fields, and how many values of each
     * @return the counts of each field, in the order of the arguments
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public List<FacetCounts> facets(String condition, Facet... facets) {
        return facets(Query.packText(condition), facets);
    }

    private List<FacetCounts> facets(byte[] filter, Facet... facets) {
        Packed packed = new Packed(64);
        for (Facet facet : facets) {
            packed.addText(facet.field());
            packed.addInt(facet.top());
            packed.addByte(facet.isDisjunctive() ? 1 : 0);
        }
        return FacetCounts.unpack(handle.readerFacets(
                handle.id, filter, filter.length, packed.bytes, packed.length));
    }

    /**
     * Count, smallest and largest value, sum and average of a field among the matches of a filter.
     *
     * @param filter the filter
     * @param field the name of a field of any role
     * @return the figures
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public Aggregate aggregate(Filter filter, String field) {
        return aggregate(filter.argument(), field);
    }

    /**
     * Count, smallest and largest value, sum and average of a field among the matches of a condition.
     *
     * @param condition a text; empty for all documents
     * @param field the name of a field of any role
     * @return the figures
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public Aggregate aggregate(String condition, String field) {
        return aggregate(Query.packText(condition), field);
    }

    private Aggregate aggregate(byte[] filter, String field) {
        GroupBy by = GroupBy.of().aggregate(field);
        return groupBy(filter, by).get(0).aggregates().get(0);
    }

    /**
     * Groups the matches of a filter by the values of at most two fields.
     *
     * @param filter the filter
     * @param by the fields to group by, and to aggregate
     * @return the groups, in the order of their keys; documents without a value come last
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public List<Group> groupBy(Filter filter, GroupBy by) {
        return groupBy(filter.argument(), by);
    }

    /**
     * Groups the matches of a condition by the values of at most two fields.
     *
     * @param condition a text; empty for all documents
     * @param by the fields to group by, and to aggregate
     * @return the groups, in the order of their keys; documents without a value come last
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public List<Group> groupBy(String condition, GroupBy by) {
        return groupBy(Query.packText(condition), by);
    }

    private List<Group> groupBy(byte[] filter, GroupBy by) {
        Packed packed = new Packed(64);
        for (List<String> names : List.of(by.fields(), by.aggregated())) {
            packed.addInt(names.size());
            names.forEach(packed::addText);
        }
        byte[] found = handle.readerGroupBy(
                handle.id, filter, filter.length, packed.bytes, packed.length);
        return Group.unpack(found, by);
    }

    /**
     * Runs a query and reports how it was executed.
     *
     * @param query the query
     * @return the plan, what it touched, and the time
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public Explanation explain(Query query) {
        return explain(query.argument());
    }

    /**
     * Runs a query and reports how it was executed.
     *
     * @param query a text such as {@code price < 20 order by price limit 10}
     * @return the plan, what it touched, and the time
     * @throws CancelledException if it takes longer than {@link #withTimeout} allows
     */
    public Explanation explain(String query) {
        return explain(Query.packText(query));
    }

    private Explanation explain(byte[] query) {
        return Explanation.unpack(handle.readerExplain(handle.id, query, query.length));
    }

    /**
     * The value of a field of a match.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field
     * @return a {@link Boolean}, {@link Long}, {@link Double}, {@link String}, {@code byte[]},
     *     {@link Instant}, or {@link java.math.BigInteger} for a {@code u64} above the largest
     *     {@code long}; the smallest one if there are several, {@code null} if there is none
     */
    public Object value(long hit, String field) {
        byte[] packed = handle.readerValue(handle.id, hit, field);
        return packed == null ? null : new Unpacked(packed).nextValue();
    }

    /**
     * All values of a field of a match, ascending.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field
     * @return the values, as {@link #value} returns one; empty if there are none
     */
    public List<Object> values(long hit, String field) {
        return new Unpacked(handle.readerValues(handle.id, hit, field)).nextValues();
    }

    /**
     * The value of a field of integers or times of a match, without an object.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field of type {@code i64}, {@code u64} or
     *     {@code timestamp}
     * @return the value; a time is the number of microseconds since 1970
     * @throws NoSuchElementException if there is no value
     * @throws IllegalArgumentException if the field is of another type, or if the value is greater
     *     than {@link Long#MAX_VALUE}
     */
    public long longValue(long hit, String field) {
        return handle.readerLong(handle.id, hit, field);
    }

    /**
     * The value of a field of type {@code f64} of a match, without an object.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field
     * @return the value
     * @throws NoSuchElementException if there is no value
     * @throws IllegalArgumentException if the field is of another type
     */
    public double doubleValue(long hit, String field) {
        return handle.readerDouble(handle.id, hit, field);
    }

    /**
     * The value of a field of type {@code bool} of a match, without an object.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field
     * @return the value
     * @throws NoSuchElementException if there is no value
     * @throws IllegalArgumentException if the field is of another type
     */
    public boolean booleanValue(long hit, String field) {
        return handle.readerBoolean(handle.id, hit, field);
    }

    /**
     * The value of a field of strings of a match.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field
     * @return the value, or {@code null} if there is none
     * @throws IllegalArgumentException if the field is of another type
     */
    public String stringValue(long hit, String field) {
        return valueAs(String.class, hit, field);
    }

    /**
     * The value of a field of times of a match.
     *
     * @param hit the match
     * @param field the name of a stored or sortable field
     * @return the value, or {@code null} if there is none
     * @throws IllegalArgumentException if the field is of another type
     */
    public Instant instantValue(long hit, String field) {
        return valueAs(Instant.class, hit, field);
    }

    private <T> T valueAs(Class<T> type, long hit, String field) {
        Object value = value(hit, field);
        if (value != null && !type.isInstance(value)) {
            throw new IllegalArgumentException(
                    "field `" + field + "` has no " + type.getSimpleName()
                            + ": read it by `value`");
        }
        return type.cast(value);
    }

    /**
     * The payload of a match.
     *
     * @param hit the match
     * @return the bytes; empty if the document has none
     */
    public byte[] payload(long hit) {
        return handle.readerPayload(handle.id, hit);
    }

    /**
     * Copies the payload of a match into a buffer, and allocates nothing.
     *
     * @param hit the match
     * @param to where the payload goes: its position is advanced by the length. If the payload does
     *     not fit, the buffer is left as it is.
     * @return the length of the payload, which is larger than {@code to.remaining()} if it did not
     *     fit
     */
    public int payload(long hit, ByteBuffer to) {
        int at = Buffers.writable(to);
        int room = Buffers.length(to, at);
        int length = handle.readerPayloadInto(
                handle.id, hit, Buffers.array(to), Buffers.direct(to), Buffers.offset(to, at),
                room);
        return Buffers.advance(to, at, room, length);
    }

    /** The token after a page of {@code count} hits, or null if the page is the last one. */
    String token(byte[] query, int count, long last) {
        byte[] token = handle.readerToken(handle.id, query, query.length, count, last);
        return token == null ? null : new String(token, StandardCharsets.UTF_8);
    }

    /** Packed payloads of hits from a place in an array on, at least that of the first. */
    byte[] payloads(long[] hits, int from) {
        return handle.readerPayloads(handle.id, hits, from, hits.length - from);
    }

    /** Packed values of fields of hits from a place in an array on, at least those of the first. */
    byte[] columns(long[] hits, int from, Packed names) {
        return handle.readerColumns(
                handle.id, hits, from, hits.length - from, names.bytes, names.length);
    }

    /** The numbers of a field, or the bits of floats, of hits from a place in an array on. */
    long[] numbers(long[] hits, int from, String field, boolean areFloats, long absent) {
        return handle.readerNumbers(
                handle.id, hits, from, hits.length - from, field, areFloats, absent);
    }

    /**
     * Verifies the checksums of everything that queries read, and builds in memory what they would
     * build on demand, so that no query has to.
     *
     * @throws CorruptException if a partition is damaged
     */
    public void warm() {
        handle.readerWarm(handle.id);
    }

    /**
     * Reads and checks every byte of every partition.
     *
     * @return what is intact; its records are documents
     * @throws CorruptException if anything is damaged
     */
    public Verification verify() {
        return Verification.of(handle.readerVerify(handle.id));
    }

    /**
     * Sizes of the collection and of its memory.
     *
     * @return the figures
     */
    public Stats stats() {
        long[] n = handle.readerStats(handle.id);
        return new Stats(n[0], n[1], n[2], n[3]);
    }

    /**
     * Sizes of a collection and of its memory.
     *
     * @param documents the number of documents
     * @param partitions the number of partitions
     * @param fileBytes the size of their files
     * @param bundleBytes memory of the bundles of small partitions that queries have built: see
     *     {@link CollectionReader#withBundleLimit}
     */
    public record Stats(long documents, long partitions, long fileBytes, long bundleBytes) {
        /**
         * About the memory that the collection uses outside of the Java heap, without mapped pages:
         * bundles, and 3 kB per partition. Readers of the same version share it.
         *
         * @return a number of bytes
         */
        public long offHeapBytes() {
            return bundleBytes + 3000 * partitions;
        }
    }

    /**
     * The number of documents.
     *
     * @return a text
     */
    @Override
    public String toString() {
        try {
            return "CollectionReader of " + size() + " documents";
        } catch (IllegalStateException e) {
            return "CollectionReader, closed";
        }
    }

    /**
     * Closes the reader. Waits for running calls. Has no effect if it is closed.
     *
     * @throws IllegalStateException if a visitor of this reader closes it
     */
    @Override
    public void close() {
        handle.close();
    }
}
