package io.firndb;

import java.util.Objects;

/**
 * A request for the most frequent values of a field among the matches of a filter. Immutable: each
 * method returns a changed request.
 *
 * <pre>{@code
 * for (FacetCounts counts : reader.facets(filter, Facet.of("city"), Facet.of("kind").top(20))) {
 *     System.out.println(counts.field() + " " + counts.values());
 * }
 * }</pre>
 *
 * @param field the name of a filterable field
 * @param top the largest number of values
 * @param isDisjunctive whether the conditions of the filter on this field are ignored
 */
public record Facet(String field, int top, boolean isDisjunctive) {
    /**
     * A request.
     *
     * @param field the name of a filterable field
     * @param top the largest number of values
     * @param isDisjunctive whether the conditions of the filter on this field are ignored
     * @throws IllegalArgumentException if {@code top} is negative
     */
    public Facet {
        Objects.requireNonNull(field, "field");
        if (top < 0) {
            throw new IllegalArgumentException("top is negative: " + top);
        }
    }

    /**
     * The 10 most frequent values of a field.
     *
     * @param field the name of a filterable field
     * @return the request
     */
    public static Facet of(String field) {
        return new Facet(field, 10, false);
    }

    /**
     * Sets the largest number of values.
     *
     * @param values how many; {@link Integer#MAX_VALUE} for all
     * @return the changed request
     * @throws IllegalArgumentException if it is negative
     */
    public Facet top(int values) {
        return new Facet(field, values, isDisjunctive);
    }

    /**
     * Counts as if the filter did not restrict the field: what a list of check boxes shows. Only
     * conditions in the outermost {@code and} of the filter are ignored.
     *
     * @return the changed request
     */
    public Facet disjunctive() {
        return new Facet(field, top, true);
    }
}
