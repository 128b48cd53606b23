package io.firndb;

import java.util.Objects;

/**
 * A sort key of a query. Documents without a value come last in either direction.
 *
 * <pre>{@code
 * import static io.firndb.Order.*;
 *
 * Query query = Query.where(filter).orderBy(asc("price"), desc("seen"));
 * }</pre>
 *
 * @param field the name of a sortable field
 * @param isDescending whether the largest value is first
 */
public record Order(String field, boolean isDescending) {
    /**
     * A sort key.
     *
     * @param field the name of a sortable field
     * @param isDescending whether the largest value is first
     */
    public Order {
        Objects.requireNonNull(field, "field");
    }

    /**
     * The smallest value first.
     *
     * @param field the name of a sortable field
     * @return the sort key
     */
    public static Order asc(String field) {
        return new Order(field, false);
    }

    /**
     * The largest value first.
     *
     * @param field the name of a sortable field
     * @return the sort key
     */
    public static Order desc(String field) {
        return new Order(field, true);
    }
}
