package io.firndb;

import java.util.Objects;

/**
 * How an {@link Indexer} assigns documents to partitions: by the hash of the key, by the value of a
 * field, or by both.
 *
 * @param field the field, or {@code null}
 * @param partitions the number of partitions by hash, for each value of the field if there is one;
 *     0 if documents are not assigned by hash
 */
public record Partitioning(String field, int partitions) {
    /**
     * How documents are assigned to partitions.
     *
     * @param field the field, or {@code null}
     * @param partitions the number of partitions by hash, for each value of the field if there is
     *     one; 0 if documents are not assigned by hash
     * @throws IllegalArgumentException if neither is given, or the number is negative
     */
    public Partitioning {
        if (partitions < 0 || (field == null && partitions == 0)) {
            throw new IllegalArgumentException(partitions + " partitions; choose 1 to 32000");
        }
    }

    /**
     * By the hash of the key.
     *
     * @param partitions the number of partitions, 1 to 32,000
     * @return the partitioning
     */
    public static Partitioning byHash(int partitions) {
        return new Partitioning(null, partitions);
    }

    /**
     * A partition per value of a field, which has at most one value per document and is of the type
     * bool, i64, u64 or string.
     *
     * @param field the name of the field
     * @return the partitioning
     */
    public static Partitioning byField(String field) {
        return new Partitioning(Objects.requireNonNull(field, "field"), 0);
    }

    /**
     * A number of partitions per value of a field, by the hash of the key.
     *
     * @param field the name of the field, as for {@link #byField}
     * @param partitions the number of partitions per value, 1 to 32,000
     * @return the partitioning
     */
    public static Partitioning byFieldAndHash(String field, int partitions) {
        if (partitions == 0) {
            throw new IllegalArgumentException("0 partitions; choose 1 to 32000");
        }
        return new Partitioning(Objects.requireNonNull(field, "field"), partitions);
    }
}
