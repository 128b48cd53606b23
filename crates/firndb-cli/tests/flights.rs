//! Queries over a year of flights in FirnDB and in SQLite must give the same answers.
//!
//! `firn demo` downloads (or, without a network, generates) the flights, builds the collection and
//! corrects a month; SQLite gets the same rows and the same correction.

use firndb::search::{
    Collection, Facet, GroupBy, Hit, Number, Reader, Value, parse_filter, parse_query,
    timestamp_from_text,
};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Row};
use std::path::Path;
use std::process::Command;

/// The columns of the file; all but the text columns are integers.
const COLUMNS: &str = "year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, \
     sched_arr_time, arr_delay, carrier, flight, tailnum, origin, dest, air_time, distance, hour, \
     minute, time_hour";
const TEXTS: [&str; 5] = ["carrier", "tailnum", "origin", "dest", "time_hour"];

/// What the demo computes from a row, in SQL: tags, and the correction of a month.
const MAKE_TAGS: &str = "
    create table tags as
    select id, 'cancelled' as tag from flights where dep_delay is null
    union all select id, 'early' from flights where dep_delay < 0
    union all select id, 'late' from flights where dep_delay >= 15
    union all select id, 'very late' from flights where dep_delay >= 120
    union all select id, 'long haul' from flights where distance >= 2000
    union all select id, 'red eye' from flights where hour >= 21
    union all select id, 'weekend' from flights
        where strftime('%w', printf('%04d-%02d-%02d', year, month, day)) in ('0', '6');
    create index tags_of on tags (id, tag);";
const CORRECT: &str = "update flights set dep_delay = dep_delay - 10, arr_delay = arr_delay - 10
    where month = 7 and carrier = 'EV'";

/// Pages: the query, and the SQL after `where`; ties are in file order within the month.
const PAGES: [(&str, &str); 19] = [
    ("carrier = 'HA'", "carrier = 'HA' order by month, id"),
    ("dest = 'SFO' limit 20", "dest = 'SFO' order by month, id limit 20"),
    (
        "dep_delay > 300 order by dep_delay desc",
        "dep_delay > 300 order by dep_delay desc, month, id",
    ),
    ("all order by distance limit 50", "true order by distance, month, id limit 50"),
    ("all order by distance desc limit 50", "true order by distance desc, month, id limit 50"),
    (
        "all order by dep_delay desc, arr_delay, distance desc limit 300",
        "true order by dep_delay desc nulls last, arr_delay nulls last, distance desc, month, id \
         limit 300",
    ),
    (
        "origin = 'JFK' order by carrier, dep_delay desc skip 2000 limit 40",
        "origin = 'JFK' order by carrier, dep_delay desc nulls last, month, id \
         limit 40 offset 2000",
    ),
    (
        "month = 2 order by dep_delay desc skip 20000 limit 30",
        "month = 2 order by dep_delay desc nulls last, id limit 30 offset 20000",
    ),
    (
        "not exists dep_time order by dest desc, hour limit 100",
        "dep_time is null order by dest desc, hour, month, id limit 100",
    ),
    (
        "tailnum prefix 'N14' order by time_hour, carrier limit 60",
        "substr(tailnum, 1, 3) = 'N14' order by time_hour, carrier, month, id limit 60",
    ),
    (
        "dest in ('LAX', 'HNL', 'XYZ') and dep_delay between -5 and 5 \
         order by day, hour desc limit 80",
        "dest in ('LAX', 'HNL', 'XYZ') and dep_delay between -5 and 5 \
         order by day, hour desc, month, id limit 80",
    ),
    (
        "not (carrier in ('UA', 'B6', 'EV') or origin = 'LGA') order by arr_delay limit 70",
        "not (carrier in ('UA', 'B6', 'EV') or origin = 'LGA') \
         order by arr_delay nulls last, month, id limit 70",
    ),
    (
        "not (dep_delay > 5) and month in (1, 12) order by dep_delay desc limit 90",
        "(dep_delay > 5) is not true and month in (1, 12) \
         order by dep_delay desc nulls last, month, id limit 90",
    ),
    (
        "time_hour >= '2013-07-04' and time_hour < '2013-07-05' order by time_hour desc limit 100",
        "time_hour >= '2013-07-04' and time_hour < '2013-07-05' \
         order by time_hour desc, month, id limit 100",
    ),
    (
        "tags = 'late' and tags = 'red eye' and not tags = 'weekend' \
         order by dest, carrier limit 50",
        "id in (select id from tags where tag = 'late') \
         and id in (select id from tags where tag = 'red eye') \
         and id not in (select id from tags where tag = 'weekend') \
         order by dest, carrier, month, id limit 50",
    ),
    (
        "carrier = 'EV' and month = 7 order by dep_delay, arr_delay desc limit 200",
        "carrier = 'EV' and month = 7 order by dep_delay nulls last, arr_delay desc nulls last, id \
         limit 200",
    ),
    (
        "(dest = 'ATL' and carrier = 'DL') or (dest = 'ORD' and carrier = 'UA') \
         order by hour desc, month desc limit 120",
        "(dest = 'ATL' and carrier = 'DL') or (dest = 'ORD' and carrier = 'UA') \
         order by hour desc, month desc, id limit 120",
    ),
    ("dep_delay < -60 order by dep_delay", "dep_delay < -60 order by dep_delay, month, id"),
    ("all skip 300000 limit 25", "true order by month, id limit 25 offset 300000"),
];

/// Counts: the filter, and the SQL after `where`.
const COUNTS: [(&str, &str); 17] = [
    ("all", "true"),
    ("carrier = 'UA'", "carrier = 'UA'"),
    ("dep_delay >= 60", "dep_delay >= 60"),
    ("dep_delay > 59.5", "dep_delay > 59.5"),
    ("dep_delay < -0.5", "dep_delay < -0.5"),
    ("not dep_delay >= 60", "(dep_delay >= 60) is not true"),
    ("not exists arr_delay and exists dep_delay", "arr_delay is null and dep_delay is not null"),
    ("distance between 1000 and 1500", "distance between 1000 and 1500"),
    ("distance between 1500 and 1000", "distance between 1500 and 1000"),
    ("dest >= 'L' and dest < 'N'", "dest >= 'L' and dest < 'N'"),
    (
        "tailnum prefix 'N' and not tailnum prefix 'N1'",
        "substr(tailnum, 1, 1) = 'N' and (substr(tailnum, 1, 2) = 'N1') is not true",
    ),
    ("not exists tailnum", "tailnum is null"),
    (
        "tags in ('early', 'weekend')",
        "id in (select id from tags where tag in ('early', 'weekend'))",
    ),
    ("not exists tags", "id not in (select id from tags)"),
    ("tags > 'late'", "id in (select id from tags where tag > 'late')"),
    (
        "carrier in ('AA', 'DL', 'UA') and (dep_delay > 120 or arr_delay > 120) and not hour < 12",
        "carrier in ('AA', 'DL', 'UA') and (dep_delay > 120 or arr_delay > 120) and not hour < 12",
    ),
    (
        "not (not (month = 3 or day = 3) and not (hour = 7 and origin = 'EWR'))",
        "not (not (month = 3 or day = 3) and not (hour = 7 and origin = 'EWR'))",
    ),
];

/// Facets: the filter, the SQL after `where`, the field, how many, whether disjunctive (the SQL
/// then lacks the conditions on the field).
const FACETS: [(&str, &str, &str, usize, bool); 10] = [
    ("all", "true", "carrier", 100, false),
    ("dep_delay >= 120", "dep_delay >= 120", "dest", 10, false),
    ("carrier = 'UA' and month <= 3", "carrier = 'UA' and month <= 3", "tailnum", 25, false),
    ("not exists dep_time", "dep_time is null", "tags", 10, false),
    ("origin = 'JFK'", "origin = 'JFK'", "dep_delay", 40, false),
    ("carrier in ('UA', 'B6') and origin = 'JFK'", "origin = 'JFK'", "carrier", 9, true),
    ("carrier in ('UA', 'B6') and origin = 'JFK'", "carrier in ('UA', 'B6')", "origin", 9, true),
    ("distance > 2000 and hour = 9", "distance > 2000 and hour = 9", "time_hour", 12, false),
    ("dep_delay = 100000", "dep_delay = 100000", "carrier", 5, false),
    ("month = 12", "month = 12", "day", 7, false),
];

/// Groups: the filter, the SQL after `where`, fields, aggregated fields.
const GROUPS: [(&str, &str, &[&str], &[&str]); 8] = [
    ("all", "true", &["carrier"], &["dep_delay", "arr_delay"]),
    ("carrier = 'EV'", "carrier = 'EV'", &["month"], &["dep_delay"]),
    ("dep_delay > 60", "dep_delay > 60", &["origin", "carrier"], &["distance", "arr_delay"]),
    ("dest = 'SFO'", "dest = 'SFO'", &["tailnum"], &["hour"]),
    ("month = 2 and day < 12", "month = 2 and day < 12", &["day", "dep_delay"], &["arr_delay"]),
    ("not exists dep_time", "dep_time is null", &["month", "origin"], &["dep_delay"]),
    ("hour = 99", "hour = 99", &["dest"], &["distance"]),
    ("distance < 200", "distance < 200", &["dest", "hour"], &["dest", "distance"]),
];

/// Filters over which whole fields are aggregated.
const AGGREGATES: [(&str, &str, &str); 4] = [
    ("all", "true", "dep_delay"),
    ("carrier = 'HA'", "carrier = 'HA'", "distance"),
    ("dep_delay > 100000", "dep_delay > 100000", "arr_delay"),
    ("dest prefix 'S'", "substr(dest, 1, 1) = 'S'", "tailnum"),
];

/// Both engines with the same flights.
struct Both {
    reader: Reader,
    sqlite: Connection,
    /// For each partition the row numbers of its documents, in their order.
    rows: Vec<Vec<i64>>,
}

impl Both {
    fn new() -> Both {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flights");
        let demo = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["demo", "--keep", "--dir"])
            .arg(&dir)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&demo.stderr);
        assert!(demo.status.success(), "firn demo: {errors}");
        let generated = errors.contains("generated");
        println!("flights are {}", if generated { "generated" } else { "the real ones" });
        let reader = Collection::open(dir.join("flights")).unwrap().reader();
        let csv = if generated { "generated-336776.csv" } else { "flights.csv" };
        let sqlite = load(&dir.join(csv));
        let mut rows = Vec::new();
        for part in reader.partitions() {
            let month: i64 = part.name.split('-').nth(1).unwrap().parse().unwrap();
            let sql = format!("select id from flights where month = {month} order by id");
            rows.push(ids(&sqlite, &sql));
        }
        Both { reader, sqlite, rows }
    }

    fn row(&self, hit: &Hit) -> i64 {
        self.rows[hit.partition as usize][hit.doc as usize]
    }

    fn one<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.sqlite.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }
}

fn load(csv: &Path) -> Connection {
    let mut sqlite = Connection::open_in_memory().unwrap();
    let columns = COLUMNS
        .split(", ")
        .map(|name| format!("{name} {}", if TEXTS.contains(&name) { "text" } else { "integer" }));
    let columns: Vec<String> = columns.collect();
    let create = format!("create table flights (id integer primary key, {})", columns.join(", "));
    sqlite.execute(&create, []).unwrap();
    let names: Vec<&str> = COLUMNS.split(", ").collect();
    let mut reader = csv::Reader::from_path(csv).unwrap();
    let headers = reader.headers().unwrap().clone();
    let places = names.iter().map(|name| headers.iter().position(|h| h == *name).unwrap());
    let places: Vec<usize> = places.collect();
    let transaction = sqlite.transaction().unwrap();
    {
        let marks = vec!["?"; names.len()].join(", ");
        let insert = format!("insert into flights ({COLUMNS}) values ({marks})");
        let mut insert = transaction.prepare(&insert).unwrap();
        for record in reader.records() {
            let record = record.unwrap();
            let cell = |&i: &usize| Some(&record[i]).filter(|c| !["", "NA"].contains(c));
            insert.execute(rusqlite::params_from_iter(places.iter().map(cell))).unwrap();
        }
    }
    transaction.commit().unwrap();
    // The file's times are of the form 2013-01-01T05:00:00Z, which SQLite compares as text.
    sqlite.execute(CORRECT, []).unwrap();
    sqlite.execute_batch(MAKE_TAGS).unwrap();
    sqlite
}

fn ids(sqlite: &Connection, sql: &str) -> Vec<i64> {
    all(sqlite, sql, |row| row.get(0).unwrap())
}

fn all<T>(sqlite: &Connection, sql: &str, mut read: impl FnMut(&Row) -> T) -> Vec<T> {
    let mut statement = sqlite.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let rows = statement.query_map([], |row| Ok(read(row))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Converts a value of SQLite to one of FirnDB.
fn value(field: &str, value: Sql) -> Option<Value> {
    match value {
        Sql::Null => None,
        Sql::Integer(v) => Some(Value::I64(v)),
        Sql::Text(v) if field == "time_hour" => {
            Some(Value::Timestamp(timestamp_from_text(&v).unwrap()))
        }
        Sql::Text(v) => Some(Value::Str(v)),
        other => panic!("{other:?} in {field}"),
    }
}

#[test]
fn firndb_and_sqlite_give_the_same_answers() {
    let both = Both::new();
    let flights: i64 = both.one("select count(*) from flights");
    assert_eq!(both.reader.len() as i64, flights);
    PAGES.iter().for_each(|(ask, sql)| check_page(&both, ask, sql));
    COUNTS.iter().for_each(|(ask, sql)| check_count(&both, ask, sql));
    FACETS.iter().for_each(|facet| check_facet(&both, *facet));
    GROUPS.iter().for_each(|group| check_groups(&both, *group));
    AGGREGATES.iter().for_each(|aggregate| check_aggregate(&both, *aggregate));
    let queries = PAGES.len() + COUNTS.len() + FACETS.len() + GROUPS.len() + AGGREGATES.len();
    println!("{queries} queries over {flights} flights: SQLite says the same");
    assert!(queries >= 40);
}

fn check_page(both: &Both, ask: &str, sql: &str) {
    let query = parse_query(ask, Some(both.reader.schema())).unwrap().with_count();
    let page = both.reader.search(&query).unwrap();
    let found: Vec<i64> = page.hits.iter().map(|hit| both.row(hit)).collect();
    let expected = ids(&both.sqlite, &format!("select id from flights where {sql}"));
    assert_eq!(found, expected, "{ask}");
    let (condition, _) = sql.split_once(" order by").unwrap();
    let count: i64 = both.one(&format!("select count(*) from flights where {condition}"));
    assert_eq!(page.count, Some(count as u64), "{ask}");
    for hit in page.hits.iter().take(10) {
        for field in COLUMNS.split(", ") {
            let sql = format!("select {field} from flights where id = {}", both.row(hit));
            let expected = value(field, both.one(&sql));
            assert_eq!(both.reader.value(*hit, field).unwrap(), expected, "{ask}: {field}");
        }
        let sql = format!("select tag from tags where id = {} order by tag", both.row(hit));
        let tags = all(&both.sqlite, &sql, |row| Value::Str(row.get(0).unwrap()));
        assert_eq!(both.reader.values(*hit, "tags").unwrap(), tags, "{ask}");
    }
}

fn check_count(both: &Both, ask: &str, sql: &str) {
    let filter = parse_filter(ask, Some(both.reader.schema())).unwrap();
    let expected: i64 = both.one(&format!("select count(*) from flights where {sql}"));
    assert_eq!(both.reader.count(&filter).unwrap(), expected as u64, "{ask}");
}

/// The table with a row for each value of the field, and the name of the field in it.
fn table_of(field: &str) -> (&'static str, &str) {
    match field {
        "tags" => ("flights left join tags using (id)", "tag"),
        _ => ("flights", field),
    }
}

fn check_facet(both: &Both, (ask, sql, field, top, disjunctive): (&str, &str, &str, usize, bool)) {
    let filter = parse_filter(ask, Some(both.reader.schema())).unwrap();
    let mut facet = Facet::new(field).top(top);
    facet.disjunctive = disjunctive;
    let found = both.reader.facets(&filter, &[facet]).unwrap().remove(0);
    let (table, column) = table_of(field);
    let from = format!("from {table} where ({sql})");
    let values = format!(
        "select {column}, count(*) {from} and {column} is not null
         group by 1 order by 2 desc, 1 limit {top}"
    );
    let read =
        |row: &Row| (value(field, row.get(0).unwrap()).unwrap(), row.get::<_, i64>(1).unwrap());
    let expected = all(&both.sqlite, &values, read);
    let values: Vec<_> = found.values.into_iter().map(|(v, n)| (v, n as i64)).collect();
    assert_eq!(values, expected, "{ask} by {field}");
    let distinct: i64 = both.one(&format!("select count(distinct {column}) {from}"));
    let missing: i64 = both.one(&format!("select count(*) {from} and {column} is null"));
    assert_eq!(
        (found.distinct, found.missing),
        (distinct as u64, missing as u64),
        "{ask} by {field}"
    );
}

/// Count, minimum, maximum, sum and average of a field, as SQLite gives them.
fn aggregate_sql(field: &str) -> String {
    format!("count({field}), min({field}), max({field}), sum({field}), avg({field})")
}

/// Compares an aggregate with the five columns from `at` on.
fn check_columns(found: &firndb::search::Aggregate, field: &str, row: &Row, at: usize, what: &str) {
    let extreme = |i| value(field, row.get(at + i).unwrap());
    let count: i64 = row.get(at).unwrap();
    assert_eq!(found.count, count as u64, "{what}: count of {field}");
    assert_eq!((&found.min, &found.max), (&extreme(1), &extreme(2)), "{what}: {field}");
    if !TEXTS.contains(&field) {
        let sum: Option<i64> = row.get(at + 3).unwrap();
        assert_eq!(found.sum, sum.map(|v| Number::Int(v.into())), "{what}: sum of {field}");
        let avg: Option<f64> = row.get(at + 4).unwrap();
        assert_eq!(found.avg, avg, "{what}: average of {field}");
    }
}

fn check_groups(both: &Both, (ask, sql, fields, aggregates): (&str, &str, &[&str], &[&str])) {
    let filter = parse_filter(ask, Some(both.reader.schema())).unwrap();
    let by = GroupBy::new(fields.iter().copied()).aggregates(aggregates.iter().copied());
    let found = both.reader.group_by(&filter, &by).unwrap();
    let columns: Vec<String> = aggregates.iter().map(|field| aggregate_sql(field)).collect();
    let order: Vec<String> = fields.iter().map(|f| format!("{f} nulls last")).collect();
    let statement = format!(
        "select {}, count(*), {} from flights where {sql} group by {} order by {}",
        fields.join(", "),
        columns.join(", "),
        fields.join(", "),
        order.join(", ")
    );
    let mut groups = found.iter();
    all(&both.sqlite, &statement, |row| {
        let group = groups.next().unwrap_or_else(|| panic!("{ask}: a group is missing"));
        let keys = fields.iter().enumerate().map(|(i, field)| value(field, row.get(i).unwrap()));
        assert_eq!(group.key, keys.collect::<Vec<_>>(), "{ask}");
        let count: i64 = row.get(fields.len()).unwrap();
        assert_eq!(group.count, count as u64, "{ask}: {:?}", group.key);
        for (i, (field, found)) in aggregates.iter().zip(&group.aggregates).enumerate() {
            check_columns(found, field, row, fields.len() + 1 + 5 * i, ask);
        }
    });
    assert!(groups.next().is_none(), "{ask}: a group too many");
}

fn check_aggregate(both: &Both, (ask, sql, field): (&str, &str, &str)) {
    let filter = parse_filter(ask, Some(both.reader.schema())).unwrap();
    let found = both.reader.aggregate(&filter, field).unwrap();
    let statement = format!("select {} from flights where {sql}", aggregate_sql(field));
    all(&both.sqlite, &statement, |row| check_columns(&found, field, row, 0, ask));
}
