//! The queries: the kinds, and the line format of the queries file.

use crate::Result;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// A data set with its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Car offers, [`super::Car`].
    Cars,
    /// Table 1 of the YoctoDB paper, [`super::Pair`].
    Table1,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Workload; 2] = [Workload::Cars, Workload::Table1];

    /// Name in jobs and directories.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Cars => "cars",
            Workload::Table1 => "table1",
        }
    }

    /// The kinds of its queries.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Workload::Cars => &[Kind::Q1, Kind::Q2, Kind::Q3, Kind::Q4, Kind::Q5, Kind::Q6],
            Workload::Table1 => &[Kind::A, Kind::B],
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Workload, String> {
        let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| format!("there is no workload `{name}`"))
    }
}

/// A kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the table in `Kind::text` describes them")]
pub enum Kind {
    Q1,
    Q2,
    Q3,
    Q4,
    Q5,
    Q6,
    A,
    B,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] =
        [Kind::Q1, Kind::Q2, Kind::Q3, Kind::Q4, Kind::Q5, Kind::Q6, Kind::A, Kind::B];

    /// A description of the query.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Q1 => "count region_id = R",
            Kind::Q2 => {
                "region_id = R and mark = M and price between, order by date desc, \
                 limit 10, with payloads"
            }
            Kind::Q3 => {
                "mark in (10) and year >= Y and not color = C, \
                 order by price asc, date desc, limit 50"
            }
            Kind::Q4 => "count lat between and lon between",
            Kind::Q5 => "all, order by date desc, limit 20",
            Kind::Q6 => "count tags in (3) and price <= P",
            Kind::A => "count f = F",
            Kind::B => "count f = F and g = G",
        }
    }

    /// Maximum number of hits of a page; zero for kinds that count.
    pub fn limit(self) -> u64 {
        match self {
            Kind::Q2 => 10,
            Kind::Q3 => 50,
            Kind::Q5 => 20,
            _ => 0,
        }
    }

    /// Runs of a query between two readings of the clock. Some engines answer these kinds faster
    /// than the clock can be read, so all engines are timed over 16 runs of the same query.
    pub fn repeats(self) -> u32 {
        match self {
            Kind::Q1 | Kind::Q5 | Kind::A => 16,
            _ => 1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.to_string() == name);
        found.ok_or_else(|| format!("there is no kind of query `{name}`"))
    }
}

/// A query: a kind and its parameters. Ranges include both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the parameters are named in `Kind::text`")]
pub enum Query {
    Q1 { region: u32 },
    Q2 { region: u32, mark: String, price: (u32, u32) },
    Q3 { marks: Vec<String>, year: u32, color: String },
    Q4 { lat: (i32, i32), lon: (i32, i32) },
    Q5,
    Q6 { tags: Vec<String>, price: u32 },
    A { f: String },
    B { f: String, g: String },
}

impl Query {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Query::Q1 { .. } => Kind::Q1,
            Query::Q2 { .. } => Kind::Q2,
            Query::Q3 { .. } => Kind::Q3,
            Query::Q4 { .. } => Kind::Q4,
            Query::Q5 => Kind::Q5,
            Query::Q6 { .. } => Kind::Q6,
            Query::A { .. } => Kind::A,
            Query::B { .. } => Kind::B,
        }
    }

    /// Parses a line of the queries file.
    pub fn parse(line: &str) -> Result<Query> {
        let mut columns = line.split('\t');
        let mut next = || columns.next().ok_or("a query has too few parameters");
        let list = |text: &str| text.split(',').map(String::from).collect();
        Ok(match next()?.parse()? {
            Kind::Q1 => Query::Q1 { region: next()?.parse()? },
            Kind::Q2 => Query::Q2 {
                region: next()?.parse()?,
                mark: next()?.into(),
                price: (next()?.parse()?, next()?.parse()?),
            },
            Kind::Q3 => {
                Query::Q3 { marks: list(next()?), year: next()?.parse()?, color: next()?.into() }
            }
            Kind::Q4 => Query::Q4 {
                lat: (next()?.parse()?, next()?.parse()?),
                lon: (next()?.parse()?, next()?.parse()?),
            },
            Kind::Q5 => Query::Q5,
            Kind::Q6 => Query::Q6 { tags: list(next()?), price: next()?.parse()? },
            Kind::A => Query::A { f: next()?.into() },
            Kind::B => Query::B { f: next()?.into(), g: next()?.into() },
        })
    }
}

impl fmt::Display for Query {
    /// The line of the queries file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        match self {
            Query::Q1 { region } => write!(f, "\t{region}"),
            Query::Q2 { region, mark, price: (low, high) } => {
                write!(f, "\t{region}\t{mark}\t{low}\t{high}")
            }
            Query::Q3 { marks, year, color } => write!(f, "\t{}\t{year}\t{color}", marks.join(",")),
            Query::Q4 { lat, lon } => write!(f, "\t{}\t{}\t{}\t{}", lat.0, lat.1, lon.0, lon.1),
            Query::Q5 => Ok(()),
            Query::Q6 { tags, price } => write!(f, "\t{}\t{price}", tags.join(",")),
            Query::A { f: value } => write!(f, "\t{value}"),
            Query::B { f: value, g } => write!(f, "\t{value}\t{g}"),
        }
    }
}

/// The queries of one kind, in the order of the file.
pub fn read_queries(path: &Path, kind: Kind) -> Result<Vec<Query>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let head = kind.to_string();
    let mine = text.lines().filter(|line| line.split('\t').next() == Some(&head));
    mine.map(|line| Query::parse(line).map_err(|e| format!("query `{line}`: {e}").into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips_through_its_line() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let queries = [
            Query::Q1 { region: 7 },
            Query::Q2 { region: 7, mark: "lada".into(), price: (1000, 2000) },
            Query::Q3 { marks: words("a b c"), year: 2001, color: "red".into() },
            Query::Q4 { lat: (-5, 5), lon: (10, 20) },
            Query::Q5,
            Query::Q6 { tags: words("x y z"), price: 5000 },
            Query::A { f: "0a".into() },
            Query::B { f: "0a".into(), g: "0b".into() },
        ];
        for query in &queries {
            assert_eq!(Query::parse(&query.to_string()).unwrap(), *query);
        }
        assert_eq!(queries.map(|query| query.kind()), Kind::ALL);
        assert!(Query::parse("Q2\t7\tlada\t1000").is_err());
        assert!(Query::parse("Q9").is_err());
    }
}
