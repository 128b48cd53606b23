import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.IntField;
import org.apache.lucene.document.IntPoint;
import org.apache.lucene.document.LongField;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.DocValues;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.SortedNumericDocValues;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.MatchAllDocsQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortField;
import org.apache.lucene.search.SortedNumericSelector;
import org.apache.lucene.search.TermInSetQuery;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopFieldCollectorManager;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.MMapDirectory;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.Version;

/**
 * Lucene as a peer: one merged segment sorted by date, postings for words and regions, points for
 * ranges, doc values for sortable fields and for payloads (doc values are not compressed, stored
 * fields are), a two-dimensional point for locations.
 *
 * <p>Filterable numbers have points, sortable ones also doc values, as in FirnDB's schema; the year
 * has doc values as well, for the query that checks it document by document.
 */
final class Lucene {
  private static final SortField BY_DATE =
      LongField.newSortField("date", true, SortedNumericSelector.Type.MIN);
  private static final SortField BY_PRICE =
      IntField.newSortField("price", false, SortedNumericSelector.Type.MIN);

  /** Hits that {@link IndexSearcher} counts before a sorted search may stop early. */
  private static final int COUNT_NO_HITS = 1;

  /** Maximum first warm-up of a kind: the JVM compiles code that has run for a while. */
  private static final long FIRST_WARM_UP = 3_000_000_000L;

  public static void main(String[] arguments) throws IOException {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var engine = new Lucene();
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        engine.answer(line.split("\t"));
      } catch (IOException | RuntimeException error) {
        error.printStackTrace();
        say("error\t" + String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
        return;
      }
    }
  }

  private IndexSearcher searcher;
  private final List<String> warmed = new ArrayList<>();

  private void answer(String[] job) throws IOException {
    switch (job[0]) {
      case "hello" -> say("hello\tLucene " + Version.LATEST + ", Java " + Runtime.version());
      case "build" -> build(job[1], Path.of(job[2]), Path.of(job[3]));
      case "open" -> open(Path.of(job[2]), Integer.parseInt(job[3]));
      case "run" -> run(job[1], job[2], Integer.parseInt(job[3]), Long.parseLong(job[4]));
      case "extras" -> say("done");
      default -> throw new IOException("there is no job " + job[0]);
    }
  }

  // Building.

  private static void build(String workload, Path data, Path directory) throws IOException {
    long start = System.nanoTime();
    boolean cars = workload.equals("cars");
    var config = new IndexWriterConfig();
    config.setRAMBufferSizeMB(1000).setUseCompoundFile(false);
    if (cars) {
      config.setIndexSort(new Sort(BY_DATE));
    }
    try (var writer = new IndexWriter(FSDirectory.open(directory), config);
        Stream<String> rows = Files.lines(data)) {
      rows.skip(1).forEach(row -> add(writer, cars ? car(row) : pair(row)));
      writer.forceMerge(1);
      writer.commit();
    }
    long wall = System.nanoTime() - start;
    String figures = wall + "\t" + cpuNanos() + "\t" + status("VmHWM:");
    say("built\t" + figures + "\t" + bytes(directory));
  }

  private static void add(IndexWriter writer, Document document) {
    try {
      writer.addDocument(document);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static Document car(String row) {
    String[] column = row.split("\t", -1);
    var document = new Document();
    document.add(new NumericDocValuesField("id", Long.parseLong(column[0])));
    document.add(new StringField("region_id", column[1], Field.Store.NO));
    document.add(new StringField("mark", column[2], Field.Store.NO));
    document.add(new StringField("model", column[3], Field.Store.NO));
    document.add(new IntField("year", Integer.parseInt(column[4]), Field.Store.NO));
    document.add(new IntField("price", Integer.parseInt(column[5]), Field.Store.NO));
    document.add(new IntPoint("mileage", Integer.parseInt(column[6])));
    document.add(new LongField("date", Long.parseLong(column[7]), Field.Store.NO));
    document.add(
        new IntPoint("place", Integer.parseInt(column[8]), Integer.parseInt(column[9])));
    document.add(new StringField("body_type", column[10], Field.Store.NO));
    document.add(new StringField("color", column[11], Field.Store.NO));
    for (String tag : column[12].split(",")) {
      if (!tag.isEmpty()) {
        document.add(new StringField("tags", tag, Field.Store.NO));
      }
    }
    document.add(new BinaryDocValuesField("payload", new BytesRef(column[13])));
    return document;
  }

  private static Document pair(String row) {
    String[] column = row.split("\t", -1);
    var document = new Document();
    document.add(new NumericDocValuesField("id", Long.parseLong(column[0])));
    document.add(new StringField("f", column[1], Field.Store.NO));
    document.add(new StringField("g", column[2], Field.Store.NO));
    return document;
  }

  // Opening.

  private void open(Path directory, int times) throws IOException {
    long before = status("RssAnon:");
    long memory = 0;
    long[] nanos = new long[times];
    for (int i = 0; i < times; i++) {
      if (searcher != null) {
        searcher.getIndexReader().close();
      }
      long start = System.nanoTime();
      searcher = new IndexSearcher(DirectoryReader.open(new MMapDirectory(directory)));
      nanos[i] = System.nanoTime() - start;
      if (i == 0) {
        memory = Math.max(0, status("RssAnon:") - before);
      }
    }
    searcher.setQueryCache(null);
    int segments = searcher.getIndexReader().leaves().size();
    if (segments != 1) {
      throw new IOException("the index has " + segments + " segments instead of one");
    }
    Arrays.sort(nanos);
    say("opened\t" + nanos[times / 2] + "\t" + memory);
  }

  // Queries.

  /** A prepared query; {@code sort} is null if it only counts. */
  private record Prepared(Query query, Sort sort, int limit, boolean payloads) {}

  private static Prepared prepare(String line) {
    String[] p = line.split("\t");
    return switch (p[0]) {
      case "Q1" -> count(term("region_id", p[1]));
      case "Q2" ->
          new Prepared(
              all(
                  term("region_id", p[1]),
                  term("mark", p[2]),
                  IntField.newRangeQuery("price", number(p[3]), number(p[4]))),
              new Sort(BY_DATE),
              10,
              true);
      case "Q3" -> {
        var query = new BooleanQuery.Builder();
        query.add(terms("mark", p[1]), Occur.FILTER);
        query.add(IntField.newRangeQuery("year", number(p[2]), Integer.MAX_VALUE), Occur.FILTER);
        query.add(term("color", p[3]), Occur.MUST_NOT);
        // Documents with the same price are in index order, which is date order.
        yield new Prepared(query.build(), new Sort(BY_PRICE), 50, false);
      }
      case "Q4" -> {
        int[] least = {number(p[1]), number(p[3])};
        int[] most = {number(p[2]), number(p[4])};
        yield count(IntPoint.newRangeQuery("place", least, most));
      }
      case "Q5" -> new Prepared(MatchAllDocsQuery.INSTANCE, new Sort(BY_DATE), 20, false);
      case "Q6" ->
          count(
              all(
                  terms("tags", p[1]),
                  IntField.newRangeQuery("price", Integer.MIN_VALUE, number(p[2]))));
      case "A" -> count(term("f", p[1]));
      case "B" -> count(all(term("f", p[1]), term("g", p[2])));
      default -> throw new IllegalArgumentException("there is no kind of query " + p[0]);
    };
  }

  private static Prepared count(Query query) {
    return new Prepared(query, null, 0, false);
  }

  private static Query term(String field, String word) {
    return new TermQuery(new Term(field, word));
  }

  private static Query terms(String field, String words) {
    return new TermInSetQuery(field, Stream.of(words.split(",")).map(BytesRef::new).toList());
  }

  private static Query all(Query... clauses) {
    var query = new BooleanQuery.Builder();
    for (Query clause : clauses) {
      query.add(clause, Occur.FILTER);
    }
    return query.build();
  }

  private static int number(String text) {
    return Integer.parseInt(text);
  }

  /** Result of a query: documents, their ids, and the sums of their payloads' bytes. */
  private static final class Found {
    long count;
    ScoreDoc[] documents = {};
    long[] ids = {};
    long[] payloads = {};
  }

  /** The timed part: from the query to the ids of its hits and the bytes of their payloads. */
  private Found find(Prepared prepared) throws IOException {
    var found = new Found();
    if (prepared.sort == null) {
      found.count = searcher.count(prepared.query);
      return found;
    }
    var manager = new TopFieldCollectorManager(prepared.sort, prepared.limit, null, COUNT_NO_HITS);
    found.documents = searcher.search(prepared.query, manager).scoreDocs;
    found.count = found.documents.length;
    found.ids = new long[found.documents.length];
    found.payloads = new long[found.documents.length];
    read(found, prepared.payloads);
    return found;
  }

  /** Doc values must be read in document order. */
  private void read(Found found, boolean payloads) throws IOException {
    long[] places = new long[found.documents.length];
    for (int i = 0; i < places.length; i++) {
      places[i] = (long) found.documents[i].doc << 32 | i;
    }
    Arrays.sort(places);
    var ids = DocValues.getNumeric(leaf(), "id");
    var bytes = payloads ? DocValues.getBinary(leaf(), "payload") : null;
    for (long place : places) {
      int document = (int) (place >>> 32);
      ids.advanceExact(document);
      found.ids[(int) place] = ids.longValue();
      if (bytes != null && bytes.advanceExact(document)) {
        found.payloads[(int) place] = sum(bytes.binaryValue());
      }
    }
  }

  private static long sum(BytesRef payload) {
    long sum = 0;
    for (int at = payload.offset; at < payload.offset + payload.length; at++) {
      sum += payload.bytes[at] & 0xff;
    }
    return sum;
  }

  private LeafReader leaf() {
    return searcher.getIndexReader().leaves().get(0).reader();
  }

  /** Warms up, then times the queries one after another, as crates/bench-protocol/src/search/serve.rs. */
  private void run(String kind, String path, int repeats, long budget) throws IOException {
    List<Prepared> queries;
    try (Stream<String> lines = Files.lines(Path.of(path))) {
      Stream<String> mine = lines.filter(line -> line.split("\t")[0].equals(kind));
      queries = mine.map(Lucene::prepare).toList();
    }
    boolean isFirst = !warmed.contains(kind);
    long limit = isFirst ? Math.min(FIRST_WARM_UP, budget * 4_000_000) : budget * 250_000;
    warmed.add(kind);
    for (long start = System.nanoTime(); System.nanoTime() - start < limit; ) {
      for (int i = 0; i < queries.size() && System.nanoTime() - start < limit; i++) {
        find(queries.get(i));
      }
    }
    var lines = new StringBuilder();
    long start = System.nanoTime();
    for (int i = 0; i < queries.size(); i++) {
      if (i >= 20 && System.nanoTime() - start > budget * 1_000_000) {
        break;
      }
      Prepared query = queries.get(i);
      Found found = null;
      long before = System.nanoTime();
      for (int turn = 0; turn < repeats; turn++) {
        found = find(query);
      }
      double nanos = (double) (System.nanoTime() - before) / repeats;
      lines.append(nanos).append('\t').append(found.count).append('\t');
      lines.append(Long.toUnsignedString(fold(query, found))).append('\n');
    }
    say(lines + "done\t0");
  }

  // The checksum of crates/bench-protocol/src/search/answer.rs.

  private long fold(Prepared query, Found found) throws IOException {
    long sum = mix(found.count);
    int hits = found.documents.length;
    long[][] keys = new long[hits][];
    for (int i = 0; i < hits; i++) {
      keys[i] = keys(query, found.documents[i].doc);
    }
    for (int i = 0; i < hits; i++) {
      sum += mix(keys[i][0] ^ mix(keys[i][1] ^ mix(i)));
      if (hits < query.limit || !Arrays.equals(keys[i], keys[hits - 1])) {
        sum += mix(found.ids[i] ^ mix(found.payloads[i]));
      }
    }
    return sum;
  }

  private long[] keys(Prepared query, int document) throws IOException {
    long date = value("date", document);
    boolean byPrice = query.sort.getSort()[0] == BY_PRICE;
    return byPrice ? new long[] {value("price", document), date} : new long[] {date, 0};
  }

  private long value(String field, int document) throws IOException {
    SortedNumericDocValues values = DocValues.getSortedNumeric(leaf(), field);
    values.advanceExact(document);
    return values.nextValue();
  }

  private static long mix(long x) {
    x += 0x9e3779b97f4a7c15L;
    x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
    x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
    return x ^ (x >>> 31);
  }

  // The process.

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static long bytes(Path directory) throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      return files.mapToLong(file -> file.toFile().length()).sum();
    }
  }

  /** A line of /proc/self/status, in bytes. */
  private static long status(String key) throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
      String line = lines.filter(text -> text.startsWith(key)).findFirst().orElse(key + " 0 kB");
      return Long.parseLong(line.substring(key.length()).trim().split(" ")[0]) * 1024;
    }
  }

  /** CPU time of all threads, in clock ticks of 10 ms. */
  private static long cpuNanos() throws IOException {
    String stat = Files.readString(Path.of("/proc/self/stat"));
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) * 10_000_000L;
  }
}
