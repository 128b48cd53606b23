package io.firndb;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;

/**
 * A query for a page of documents: a filter, an order, and which matches to return. Immutable: each
 * method returns a changed query. A query that is used again is converted for native code once.
 *
 * <pre>{@code
 * import static io.firndb.Filter.*;
 * import static io.firndb.Order.*;
 *
 * Query query = Query.where(lt("price", 20)).orderBy(asc("price")).limit(10);
 * Query next = query.after(hits.next());
 * }</pre>
 *
 * <p>Matches with equal sort keys are ordered by the names of their partitions, then by their
 * numbers, so that pages neither overlap nor omit documents. Without an order, these alone define
 * it.
 */
public final class Query {
    /** The first byte of an argument that is a text. */
    private static final byte TEXT = 0;

    private static final int HAS_LIMIT = 1;
    private static final int HAS_TOKEN = 2;
    private static final int COUNTS = 4;

    private static final Query EVERYTHING =
            new Query(Filter.all(), List.of(), 0, -1, null, false);

    private final Filter filter;
    private final List<Order> order;
    private final long skip;
    /** Negative if there is none. */
    private final long limit;
    /** Null if there is none. */
    private final String token;
    private final boolean isCounting;
    private volatile byte[] argument;

    private Query(
            Filter filter, List<Order> order, long skip, long limit, String token,
            boolean isCounting) {
        this.filter = Objects.requireNonNull(filter, "filter");
        this.order = order;
        this.skip = skip;
        this.limit = limit;
        this.token = token;
        this.isCounting = isCounting;
    }

    /**
     * A query for all documents.
     *
     * @return the query
     */
    public static Query select() {
        return EVERYTHING;
    }

    /**
     * A query for the documents that match a filter.
     *
     * @param filter the filter
     * @return the query
     */
    public static Query where(Filter filter) {
        return new Query(filter, List.of(), 0, -1, null, false);
    }

    /**
     * Reads the text form of a query, such as {@code price < 10 order by price limit 5}; the guide of
     * collections describes it. The names and values are checked when the query is used.
     *
     * @param text the text
     * @return the query
     * @throws IllegalArgumentException if the text is not a query; the message marks the place
     */
    public static Query parse(String text) {
        NativeLibrary.load();
        byte[] argument = packText(text);
        Unpacked found = new Unpacked(Native.queryParse(argument, argument.length));
        int depth = found.nextInt();
        int flags = found.nextByte();
        long skip = found.nextLong();
        long limit = found.nextLong();
        String token = found.nextText();
        List<Order> order = new ArrayList<>();
        for (int keys = found.nextInt(); keys > 0; keys--) {
            order.add(new Order(found.nextText(), found.nextByte() != 0));
        }
        return new Query(
                new Filter(found.rest(), depth), List.copyOf(order), skip,
                (flags & HAS_LIMIT) != 0 ? limit : -1, (flags & HAS_TOKEN) != 0 ? token : null,
                false);
    }

    /**
     * Adds a condition to the filter.
     *
     * @param condition documents must match it, too
     * @return the changed query
     */
    public Query and(Filter condition) {
        Filter both = filter.equals(Filter.all()) ? condition : Filter.and(filter, condition);
        return new Query(both, order, skip, limit, token, isCounting);
    }

    /**
     * Adds sort keys to the order, after those that it has.
     *
     * @param keys the sort keys, the most significant first
     * @return the changed query
     */
    public Query orderBy(Order... keys) {
        List<Order> more = new ArrayList<>(order);
        more.addAll(List.of(keys));
        return new Query(filter, List.copyOf(more), skip, limit, token, isCounting);
    }

    /**
     * Adds a sort key to the order, after those that it has, as {@link #orderBy} does.
     *
     * @param key the sort key
     * @return the changed query
     */
    public Query and(Order key) {
        return orderBy(key);
    }

    /**
     * Skips the first matches. To read page after page, {@link #after} takes less time.
     *
     * @param matches how many; 0 by default
     * @return the changed query
     */
    public Query skip(long matches) {
        return new Query(filter, order, notNegative(matches, "skip"), limit, token, isCounting);
    }

    /**
     * Limits the number of matches that are returned. By default all are returned; each takes 8
     * bytes.
     *
     * @param matches the limit
     * @return the changed query
     */
    public Query limit(long matches) {
        return new Query(filter, order, skip, notNegative(matches, "limit"), token, isCounting);
    }

    private static long notNegative(long number, String what) {
        if (number < 0) {
            throw new IllegalArgumentException(what + " is negative: " + number);
        }
        return number;
    }

    /**
     * Returns only matches that follow those of an earlier page of the same order.
     *
     * @param token what {@link Hits#next} of that page returned; {@code null} to begin with the first
     *     match, as by default
     * @return the changed query
     */
    public Query after(String token) {
        return new Query(filter, order, skip, limit, token, isCounting);
    }

    /**
     * Counts all matches of the filter as well, for {@link Hits#total}. The limit, the skipped
     * matches and the token do not change the count.
     *
     * @return the changed query
     */
    public Query withCount() {
        return new Query(filter, order, skip, limit, token, true);
    }

    /**
     * The condition.
     *
     * @return the filter
     */
    public Filter filter() {
        return filter;
    }

    /**
     * The sort keys.
     *
     * @return the keys, the most significant first
     */
    public List<Order> order() {
        return order;
    }

    /**
     * The number of matches that are skipped.
     *
     * @return the number; 0 by default
     */
    public long skip() {
        return skip;
    }

    /**
     * The largest number of matches that are returned.
     *
     * @return the number; empty without a limit
     */
    public OptionalLong limit() {
        return limit < 0 ? OptionalLong.empty() : OptionalLong.of(limit);
    }

    /** The same order and filter without a count, for one of several pages. */
    Query page(long skip, long limit, String token) {
        return new Query(filter, order, skip, limit, token, false);
    }

    /** The page token, or null. */
    String token() {
        return token;
    }

    /** The argument of a native method for this query. */
    byte[] argument() {
        byte[] made = argument;
        if (made == null) {
            made = pack();
            argument = made;
        }
        return made;
    }

    private byte[] pack() {
        Packed packed = new Packed(64 + filter.packed.length);
        packed.addByte(filter.tag());
        packed.addByte(
                (limit < 0 ? 0 : HAS_LIMIT) | (token == null ? 0 : HAS_TOKEN)
                        | (isCounting ? COUNTS : 0));
        packed.addLong(skip);
        packed.addLong(limit);
        packed.addText(token == null ? "" : token);
        packed.addInt(order.size());
        for (Order key : order) {
            packed.addText(key.field());
            packed.addByte(key.isDescending() ? 1 : 0);
        }
        packed.addRaw(filter.packed);
        return Arrays.copyOf(packed.bytes, packed.length);
    }

    /** The argument of a native method for the text form of a query or a filter. */
    static byte[] packText(String text) {
        Packed packed = new Packed(text.length() + 8);
        packed.addByte(TEXT);
        packed.addText(text);
        return Arrays.copyOf(packed.bytes, packed.length);
    }

    /**
     * The text form, which {@link #parse} reads back. {@link #withCount} is not part of it.
     *
     * @return the text
     */
    @Override
    public String toString() {
        NativeLibrary.load();
        byte[] made = argument();
        return new String(Native.queryText(made, made.length), StandardCharsets.UTF_8);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Query query && Arrays.equals(argument(), query.argument());
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(argument());
    }
}
