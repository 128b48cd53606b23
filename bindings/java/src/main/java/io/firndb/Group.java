package io.firndb;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Documents that have the same values of the fields that a query groups by.
 *
 * @param key one value for each field of {@link GroupBy#fields}; {@code null} for documents
 *     without one
 * @param count the number of documents
 * @param aggregates one for each field of {@link GroupBy#aggregated}
 */
public record Group(List<Object> key, long count, List<Aggregate> aggregates) {
    static List<Group> unpack(byte[] packed, GroupBy by) {
        Unpacked from = new Unpacked(packed);
        List<Group> groups = new ArrayList<>();
        while (!from.isOver()) {
            Object[] key = new Object[by.fields().size()];
            for (int i = 0; i < key.length; i++) {
                key[i] = from.nextValue();
            }
            long count = from.nextLong();
            Aggregate[] aggregates = new Aggregate[by.aggregated().size()];
            for (int i = 0; i < aggregates.length; i++) {
                aggregates[i] = Aggregate.unpack(from);
            }
            groups.add(new Group(
                    Collections.unmodifiableList(Arrays.asList(key)), count, List.of(aggregates)));
        }
        return groups;
    }
}
