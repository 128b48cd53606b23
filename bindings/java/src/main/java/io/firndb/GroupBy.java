package io.firndb;

import java.util.List;

/**
 * Fields whose values define groups of documents, and fields that are aggregated in each group.
 * Immutable.
 *
 * <pre>{@code
 * for (Group group : reader.groupBy(filter, GroupBy.of("city").aggregate("price"))) {
 *     System.out.println(group.key() + " " + group.count() + " " + group.aggregates());
 * }
 * }</pre>
 *
 * @param fields the names of at most two fields of any role; without any, all matches are one group
 * @param aggregated the names of the fields to aggregate
 */
public record GroupBy(List<String> fields, List<String> aggregated) {
    /**
     * Fields to group by and to aggregate.
     *
     * @param fields the names of at most two fields of any role
     * @param aggregated the names of the fields to aggregate
     */
    public GroupBy {
        fields = List.copyOf(fields);
        aggregated = List.copyOf(aggregated);
    }

    /**
     * Groups by the values of fields. A document with several values is in several groups.
     *
     * @param fields the names of at most two fields
     * @return the request
     */
    public static GroupBy of(String... fields) {
        return new GroupBy(List.of(fields), List.of());
    }

    /**
     * Sets the fields to aggregate in each group.
     *
     * @param names the names of fields
     * @return the changed request
     */
    public GroupBy aggregate(String... names) {
        return new GroupBy(fields, List.of(names));
    }
}
