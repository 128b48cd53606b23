package io.firndb;

import java.util.List;

/**
 * A page of a scan that keeps no state in the store: see {@link LogStore#scan} and
 * {@link Table#scan}.
 *
 * @param entries the records of the page
 * @param next the cursor of the next page, or -1 if this is the last one
 */
public record ScanPage(List<Entry> entries, long next) {
    static ScanPage of(byte[] page) {
        return new ScanPage(Packed.entries(page, 8), Packed.longAt(page, 0));
    }
}
