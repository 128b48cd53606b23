package io.firndb;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * How a query was executed. {@link #toString} is a text for people, the same as that of
 * {@code firn search explain}.
 *
 * @param plan the plan, one line per step, with estimated numbers of documents
 * @param hits the number of hits on the page
 * @param matches the number of all matches, if the query counts them
 * @param partitions the number of partitions
 * @param partitionsPruned the number of partitions that were excluded without reading them
 * @param documentsTouched the number of documents that were checked individually
 * @param listEntriesTouched the number of entries of the lists of documents per value that were
 *     combined
 * @param touchedBytes estimated bytes that were read, within a factor of two
 * @param time the time of the query, including planning
 * @param text the text for people
 */
public record Explanation(
        List<String> plan,
        long hits,
        OptionalLong matches,
        long partitions,
        long partitionsPruned,
        long documentsTouched,
        long listEntriesTouched,
        long touchedBytes,
        Duration time,
        String text) {
    static Explanation unpack(byte[] packed) {
        Unpacked from = new Unpacked(packed);
        List<String> plan = new ArrayList<>();
        for (int lines = from.nextInt(); lines > 0; lines--) {
            plan.add(from.nextText());
        }
        long hits = from.nextLong();
        long matches = from.nextLong();
        return new Explanation(
                List.copyOf(plan), hits,
                matches < 0 ? OptionalLong.empty() : OptionalLong.of(matches), from.nextLong(),
                from.nextLong(), from.nextLong(), from.nextLong(), from.nextLong(),
                Duration.ofNanos(from.nextLong()), from.nextText());
    }

    /**
     * The figures as a JSON object, with the names of {@code firn search explain --json}.
     *
     * @return the text
     */
    public String toJson() {
        StringBuilder json = new StringBuilder("{\"plan\":[");
        for (int i = 0; i < plan.size(); i++) {
            json.append(i == 0 ? "" : ",");
            appendText(json, plan.get(i));
        }
        return json.append("],\"hits\":").append(hits)
                .append(",\"matches\":")
                .append(matches.isPresent() ? String.valueOf(matches.getAsLong()) : "null")
                .append(",\"partitions\":").append(partitions)
                .append(",\"partitions_pruned\":").append(partitionsPruned)
                .append(",\"docs_touched\":").append(documentsTouched)
                .append(",\"list_entries_touched\":").append(listEntriesTouched)
                .append(",\"touched_bytes\":").append(touchedBytes)
                .append(",\"elapsed_seconds\":").append(time.toNanos() / 1e9)
                .append('}').toString();
    }

    private static void appendText(StringBuilder json, String text) {
        json.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        json.append('"');
    }

    @Override
    public String toString() {
        return text;
    }
}
