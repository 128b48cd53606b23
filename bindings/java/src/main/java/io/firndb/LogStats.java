package io.firndb;

import java.util.ArrayList;
import java.util.List;

/**
 * The state of a log store at one moment. Counts begin when the store is opened.
 *
 * @param keys keys, including those whose records have expired but have not been removed yet
 * @param segments segments, including the active one
 * @param diskBytes bytes of the segments' files, including reserved space that is not used yet
 * @param heldBytes bytes of files that compaction took out of the store and that are still on
 *     disk, because a snapshot or an iterator reads them, or because their removal waits for a
 *     sync
 * @param liveBytes bytes of the newest records of the keys
 * @param indexBytes bytes of memory of the index, outside of the Java heap
 * @param keyRuns files with the sorted keys of an ordered store
 * @param keyRunBytes bytes of these files, in addition to {@code diskBytes}
 * @param tailBytes bytes of memory for sorted keys that are not in such a file yet
 * @param puts puts
 * @param deletes deletes
 * @param userBytes bytes of keys and values in these
 * @param logBytes bytes appended to the log for these
 * @param syncs syncs of the log
 * @param falseReads reads of a record that turned out to be another key's
 * @param movedBytes bytes that compaction appended
 * @param movedRecords records that compaction appended
 * @param scannedRecords records in the segments that compaction went through
 * @param removedBytes bytes of the files that compaction took out of the store
 * @param pendingSegments sealed segments that wait for compaction
 * @param maintenanceBytes bytes of hints, checkpoints and other maintenance files
 * @param backups backups made
 * @param segmentsRemoved segments that compaction removed
 * @param droppedBytes bytes after the end of the log that the opening dropped: a torn write
 * @param droppedFiles files that the opening removed because they were not part of the store
 * @param hintedSegments segments whose hints the opening read
 * @param scannedSegments segments whose records the opening read
 * @param appendMode how records are appended; {@code AUTO} if that is not known
 * @param isOrdered whether the store is ordered
 * @param isCompacting whether compaction copies records at this moment
 * @param compactionSeconds seconds that compaction took
 * @param openingSeconds seconds that the opening took
 * @param seconds seconds since the store was opened, in which all counts were made
 * @param segmentStats the segments, ordered by number
 */
public record LogStats(
        long keys,
        long segments,
        long diskBytes,
        long heldBytes,
        long liveBytes,
        long indexBytes,
        long keyRuns,
        long keyRunBytes,
        long tailBytes,
        long puts,
        long deletes,
        long userBytes,
        long logBytes,
        long syncs,
        long falseReads,
        long movedBytes,
        long movedRecords,
        long scannedRecords,
        long removedBytes,
        long pendingSegments,
        long maintenanceBytes,
        long backups,
        long segmentsRemoved,
        long droppedBytes,
        long droppedFiles,
        long hintedSegments,
        long scannedSegments,
        AppendMode appendMode,
        boolean isOrdered,
        boolean isCompacting,
        double compactionSeconds,
        double openingSeconds,
        double seconds,
        List<Segment> segmentStats) {
    private static final int COUNTS = 27;
    private static final int SEGMENTS = COUNTS + 6;
    private static final int SEGMENT = 7;

    /**
     * A segment of a store.
     *
     * @param number its number; later records are in segments with larger numbers
     * @param diskBytes bytes of its file
     * @param usedBytes bytes up to the end of its last record
     * @param liveBytes bytes of the newest records of keys
     * @param deleteBytes bytes of deletes
     * @param staleShare share, 0 to 1, that compaction would free
     * @param isSealed whether it is full and durable, so that compaction may take it
     */
    public record Segment(
            long number,
            long diskBytes,
            long usedBytes,
            long liveBytes,
            long deleteBytes,
            double staleShare,
            boolean isSealed) {}

    static LogStats of(long[] n) {
        List<Segment> segments = new ArrayList<>();
        for (int i = SEGMENTS; i + SEGMENT <= n.length; i += SEGMENT) {
            segments.add(new Segment(
                    n[i], n[i + 1], n[i + 2], n[i + 3], n[i + 4],
                    Double.longBitsToDouble(n[i + 5]), n[i + 6] != 0));
        }
        return new LogStats(
                n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10],
                n[11], n[12], n[13], n[14], n[15], n[16], n[17], n[18], n[19],
                n[20], n[21], n[22], n[23], n[24], n[25], n[26],
                AppendMode.values()[(int) n[COUNTS]], n[COUNTS + 1] != 0, n[COUNTS + 2] != 0,
                Double.longBitsToDouble(n[COUNTS + 3]), Double.longBitsToDouble(n[COUNTS + 4]),
                Double.longBitsToDouble(n[COUNTS + 5]), List.copyOf(segments));
    }

    /**
     * Memory that the open store uses outside of the Java heap, without mapped pages.
     *
     * @return a number of bytes
     */
    public long offHeapBytes() {
        return indexBytes + tailBytes;
    }
}
