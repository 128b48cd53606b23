//! SQLite as a peer: one table with an index for each kind of query, and plans forced by hints
//! where its planner would choose a worse one.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{
    Answer, Engine, Hit, Kind, Query, Session, Workload, each_car, each_pair, serve,
};
use rusqlite::{Connection, OpenFlags, Row, Statement, ToSql, params};
use std::path::Path;

fn main() -> Result<()> {
    serve(&Sqlite)
}

struct Sqlite;

const FILE: &str = "data.sqlite";

/// An R*Tree answers Q4, the clustered table `tag` answers Q6.
const CARS: &str = "
    create table car (
        id integer primary key, region_id int, mark text, model text, year int, price int,
        mileage int, date int, lat int, lon int, body_type text, color text, tags text, payload text
    );
    create virtual table place using rtree_i32(id, south, north, west, east);
    create table tag (
        tag text, price int, id int, primary key (tag, price, id)
    ) without rowid;";

const CARS_INDEXES: &str = "
    create index by_region on car (region_id, mark, price, date);
    create index by_price on car (price, date desc, mark, year, color);
    create index by_date on car (date);
    analyze;";

const TABLE1: &str = "create table pair (id integer primary key, f text, g text);";
const TABLE1_INDEXES: &str = "create index by_f on pair (f, g); analyze;";

/// The text of a kind's statement.
fn sql(kind: Kind) -> &'static str {
    match kind {
        Kind::Q1 => "select count(*) from car where region_id = ?",
        // The ten rows are found in the index before payloads are read.
        Kind::Q2 => {
            "select id, date, 0, payload from car where id in (
                 select id from car indexed by by_region
                 where region_id = ? and mark = ? and price between ? and ?
                 order by date desc limit 10
             ) order by date desc"
        }
        // Without a hint SQLite looks up the marks and sorts the matches.
        Kind::Q3 => {
            "select id, price, date from car indexed by by_price
             where mark in (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) and year >= ? and color <> ?
             order by price, date desc limit 50"
        }
        Kind::Q4 => {
            "select count(*) from place
             where south >= ? and north <= ? and west >= ? and east <= ?"
        }
        Kind::Q5 => "select id, date, 0 from car order by date desc limit 20",
        Kind::Q6 => "select count(distinct id) from tag where tag in (?, ?, ?) and price <= ?",
        Kind::A => "select count(*) from pair where f = ?",
        Kind::B => "select count(*) from pair where f = ? and g = ?",
    }
}

impl Engine for Sqlite {
    type Session = Opened;

    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn build(&self, workload: Workload, data: &Path, dir: &Path) -> Result<()> {
        let connection = Connection::open(dir.join(FILE))?;
        connection.execute_batch(
            "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -1000000;
             begin",
        )?;
        match workload {
            Workload::Cars => build_cars(&connection, data)?,
            Workload::Table1 => build_table1(&connection, data)?,
        }
        Ok(connection.execute_batch("commit")?)
    }

    fn open(&self, workload: Workload, dir: &Path) -> Result<Opened> {
        let path = dir.join(FILE);
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.execute_batch(
            "pragma locking_mode = exclusive; pragma mmap_size = 8000000000;
             pragma cache_size = -250000; pragma temp_store = memory",
        )?;
        // Statements borrow their connection; both live as long as the process.
        let connection: &'static Connection = Box::leak(Box::new(connection));
        let prepare = |&kind: &Kind| Ok((kind, connection.prepare(sql(kind))?));
        let statements = workload.kinds().iter().map(prepare).collect::<Result<_>>()?;
        Ok(Opened { statements })
    }
}

fn build_cars(connection: &Connection, data: &Path) -> Result<()> {
    connection.execute_batch(CARS)?;
    let mut car = connection.prepare("insert into car values (?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?;
    let mut place = connection.prepare("insert into place values (?, ?, ?, ?, ?)")?;
    let mut tags = Vec::new();
    each_car(data, |c| {
        car.execute(params![
            c.id,
            c.region,
            c.mark,
            c.model,
            c.year,
            c.price,
            c.mileage,
            c.date,
            c.lat,
            c.lon,
            c.body_type,
            c.color,
            c.tags,
            c.payload
        ])?;
        place.execute(params![c.id, c.lat, c.lat, c.lon, c.lon])?;
        tags.extend(c.tags().map(|tag| (tag.to_string(), c.price, c.id)));
        Ok(())
    })?;
    // In the order of the table, so that its pages are filled sequentially.
    tags.sort_unstable();
    let mut insert = connection.prepare("insert into tag values (?, ?, ?)")?;
    for (tag, price, id) in tags {
        insert.execute(params![tag, price, id])?;
    }
    Ok(connection.execute_batch(CARS_INDEXES)?)
}

fn build_table1(connection: &Connection, data: &Path) -> Result<()> {
    connection.execute_batch(TABLE1)?;
    let mut insert = connection.prepare("insert into pair values (?, ?, ?)")?;
    each_pair(data, |pair| {
        insert.execute(params![pair.id, pair.f, pair.g])?;
        Ok(())
    })?;
    Ok(connection.execute_batch(TABLE1_INDEXES)?)
}

/// Prepared statements, one per kind.
struct Opened {
    statements: Vec<(Kind, Statement<'static>)>,
}

/// A query and its parameters.
struct Bound {
    kind: Kind,
    parameters: Vec<Box<dyn ToSql>>,
}

impl Session for Opened {
    type Prepared = Bound;

    fn prepare(&mut self, query: &Query) -> Result<Bound> {
        let mut parameters: Vec<Box<dyn ToSql>> = Vec::new();
        let texts = |words: &[String]| {
            words.iter().map(|word| Box::new(word.clone()) as Box<dyn ToSql>).collect::<Vec<_>>()
        };
        match query.clone() {
            Query::Q1 { region } => parameters.push(Box::new(region)),
            Query::Q2 { region, mark, price } => {
                parameters.push(Box::new(region));
                parameters.push(Box::new(mark));
                parameters.push(Box::new(price.0));
                parameters.push(Box::new(price.1));
            }
            Query::Q3 { marks, year, color } => {
                parameters.extend(texts(&marks));
                parameters.push(Box::new(year));
                parameters.push(Box::new(color));
            }
            Query::Q4 { lat, lon } => {
                let bounds = [lat.0, lat.1, lon.0, lon.1];
                parameters.extend(bounds.map(|bound| Box::new(bound) as Box<dyn ToSql>));
            }
            Query::Q5 => {}
            Query::Q6 { tags, price } => {
                parameters.extend(texts(&tags));
                parameters.push(Box::new(price));
            }
            Query::A { f } => parameters.extend(texts(&[f])),
            Query::B { f, g } => parameters.extend(texts(&[f, g])),
        }
        Ok(Bound { kind: query.kind(), parameters })
    }

    fn run(&mut self, query: &Bound, answer: &mut Answer) -> Result<()> {
        let found = self.statements.iter_mut().find(|(kind, _)| *kind == query.kind);
        let (kind, statement) = found.ok_or("the query belongs to another workload")?;
        for (i, parameter) in query.parameters.iter().enumerate() {
            statement.raw_bind_parameter(i + 1, parameter)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if kind.limit() == 0 {
                answer.set_count(row.get(0)?);
            } else {
                answer.push(hit(row, *kind == Kind::Q2)?);
            }
        }
        Ok(())
    }
}

fn hit(row: &Row<'_>, with_payload: bool) -> Result<Hit> {
    let mut payload = 0;
    if with_payload {
        payload = row.get_ref(3)?.as_bytes()?.iter().map(|&byte| u64::from(byte)).sum();
    }
    Ok(Hit { id: row.get(0)?, keys: [row.get(1)?, row.get(2)?], payload })
}
