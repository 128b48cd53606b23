package io.firndb.bench;

import static io.firndb.Filter.and;
import static io.firndb.Filter.eq;
import static io.firndb.Filter.lt;
import static io.firndb.Order.asc;

import io.firndb.Change;
import io.firndb.Collection;
import io.firndb.CollectionReader;
import io.firndb.Document;
import io.firndb.Field;
import io.firndb.FieldType;
import io.firndb.Hits;
import io.firndb.PartitionBuilder;
import io.firndb.Query;
import io.firndb.Role;
import io.firndb.Schema;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** A page of hits of a collection that was built before. */
@State(Scope.Thread)
public class Pages {
    static final int HITS = 20;
    private static final int MOST = 900_000;
    private static final String CITY = "Oslo";

    @Param("")
    String dir;

    private final Query query = query();
    private final String text = query.toString();
    private Collection collection;
    private CollectionReader reader;

    static Query query() {
        return Query.where(and(lt("price", MOST), eq("city", CITY)))
                .orderBy(asc("price"))
                .limit(HITS);
    }

    /** Builds the collection. */
    static void build(Path dir, int rows) {
        Schema schema = Schema.of(
                Field.of("price", FieldType.U64, Role.FILTERABLE, Role.SORTABLE),
                Field.of("city", FieldType.STRING, Role.FILTERABLE, Role.SORTABLE));
        SplittableRandom random = new SplittableRandom(7);
        try (Collection collection = Collection.create(dir);
                PartitionBuilder builder = PartitionBuilder.create(schema);
                Change change = collection.change()) {
            for (int row = 0; row < rows; row++) {
                int city = random.nextInt(220);
                builder.add(new Document()
                        .set("price", random.nextInt(10_000, 5_000_000))
                        .set("city", city < 20 ? CITY : "city " + city)
                        .payload(Records.value(row)));
            }
            change.put("offers", builder).commit();
        }
    }

    /** Opens the collection, and checks the first page. */
    @Setup(Level.Trial)
    public void open() {
        collection = Collection.open(Path.of(dir));
        reader = collection.reader();
        Hits hits = search();
        long before = 0;
        for (long hit : hits.hits()) {
            long price = reader.longValue(hit, "price");
            if (price < before || price >= MOST || !reader.value(hit, "city").equals(CITY)) {
                throw new IllegalStateException("a wrong hit with the price " + price);
            }
            before = price;
        }
        if (hits.size() != HITS || payloads().size() != HITS
                || !Arrays.equals(hits.hits(), searchText().hits())) {
            throw new IllegalStateException("a wrong page: " + hits);
        }
    }

    @TearDown(Level.Trial)
    public void close() {
        reader.close();
        collection.close();
    }

    @Benchmark
    public Hits search() {
        return reader.search(query);
    }

    @Benchmark
    public Hits searchText() {
        return reader.search(text);
    }

    @Benchmark
    public List<byte[]> payloads() {
        return reader.search(query).payloads();
    }
}
