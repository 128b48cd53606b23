package io.firndb;

/**
 * What a verification found intact. Damage is a {@link CorruptException} instead.
 *
 * @param files files; of a log store its segments
 * @param bytes bytes of these files, all of which were checked
 * @param records records, those of a log store including replaced and deleted ones
 */
public record Verification(long files, long bytes, long records) {
    static Verification of(long[] numbers) {
        return new Verification(numbers[0], numbers[1], numbers[2]);
    }
}
