package io.firndb;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * The most frequent values of a field among the matches of a filter.
 *
 * @param field the field
 * @param values the values, the most frequent first; values with equal counts ascend
 * @param distinct the number of distinct values among the matches
 * @param missing the number of matches without a value
 */
public record FacetCounts(String field, List<Count> values, long distinct, long missing) {
    /**
     * A value, and the number of matches that have it.
     *
     * @param value the value, as {@link CollectionReader#value} returns it
     * @param documents the number of matches
     */
    public record Count(Object value, long documents) {}

    static List<FacetCounts> unpack(byte[] packed) {
        Unpacked from = new Unpacked(packed);
        List<FacetCounts> facets = new ArrayList<>();
        while (!from.isOver()) {
            String field = from.nextText();
            int count = from.nextInt();
            List<Count> values = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                values.add(new Count(from.nextValue(), from.nextLong()));
            }
            facets.add(new FacetCounts(
                    field, Collections.unmodifiableList(values), from.nextLong(),
                    from.nextLong()));
        }
        return facets;
    }
}
