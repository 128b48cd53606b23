//! The queries of the demo, each shown as a `firn search` command.

use crate::cmd::{facets, filter_of, group, query_of};
use crate::failure::Result;
use crate::output::{Grid, Out, decimal, plural, time, to_text};
use firndb::search::{Facet, GroupBy, Hit, Query, Reader};
use firndb::{Error, ErrorKind};
use firndb_ingest::results::{facet_to_json, fields_to_json, group_to_json};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

/// Runs per query; the median is shown.
const REPEATS: usize = 7;

/// A query: what it is about, and how it is run.
struct DemoQuery {
    about: &'static str,
    kind: Kind,
}

enum Kind {
    /// A page of documents of a query, showing these fields.
    Find(&'static str, &'static [&'static str]),
    /// A page of the query by `skip`, and the same page by the page token of the page before it.
    Deep(&'static str, &'static [&'static str]),
    Count(&'static str),
    Facets(&'static str, &'static [&'static str], bool),
    Group(&'static str, &'static [&'static str], &'static [&'static str]),
    Explain(&'static str),
}

const LATE_DELTA: &str =
    "carrier = 'DL' and dest = 'ATL' and tags = 'late' order by dep_delay desc limit 5";

const QUERIES: [DemoQuery; 13] = [
    DemoQuery {
        about: "The latest Delta flights to Atlanta",
        kind: Kind::Find(LATE_DELTA, &["month", "day", "origin", "tailnum", "dep_delay", "tags"]),
    },
    DemoQuery {
        about: "Carriers and destinations of flights that leave two hours late",
        kind: Kind::Facets("dep_delay >= 120", &["carrier", "dest"], false),
    },
    DemoQuery {
        about: "United and JetBlue from JFK, and what another choice of either would give",
        kind: Kind::Facets(
            "carrier in ('UA', 'B6') and origin = 'JFK'",
            &["carrier", "origin"],
            true,
        ),
    },
    DemoQuery {
        about: "A year of ExpressJet's delays",
        kind: Kind::Group("carrier = 'EV'", &["month"], &["dep_delay"]),
    },
    DemoQuery {
        about: "Medium hauls that left between seven and eight in the morning",
        kind: Kind::Find(
            "distance between 1000 and 1500 and dep_time >= 700 and dep_time < 800 \
             order by distance desc limit 5",
            &["distance", "dep_time", "carrier", "origin", "dest"],
        ),
    },
    DemoQuery {
        about: "Deep in a list: what comes after the first 100,000 of JFK by delay",
        kind: Kind::Deep(
            "origin = 'JFK' order by dep_delay desc, time_hour skip 100000 limit 5",
            &["dep_delay", "time_hour", "carrier", "dest"],
        ),
    },
    DemoQuery {
        about: "Aircraft whose registration starts with N14",
        kind: Kind::Facets("tailnum prefix 'N14'", &["tailnum"], false),
    },
    DemoQuery {
        about: "Flights that never left, by month",
        kind: Kind::Group("not exists dep_time", &["month"], &[]),
    },
    DemoQuery {
        about: "Flights across the continent that left very late on a weekend",
        kind: Kind::Count("tags = 'very late' and tags = 'long haul' and tags = 'weekend'"),
    },
    DemoQuery {
        about: "San Francisco in July: by carrier, the latest first",
        kind: Kind::Find(
            "month = 7 and dest = 'SFO' order by carrier, dep_delay desc limit 5",
            &["carrier", "dep_delay", "day", "origin", "tags"],
        ),
    },
    DemoQuery {
        about: "The blizzard of February 8 and 9: what became of the flights",
        kind: Kind::Facets(
            "time_hour >= '2013-02-08T05:00:00Z' and time_hour < '2013-02-10T05:00:00Z'",
            &["tags"],
            false,
        ),
    },
    DemoQuery {
        about: "Evening flights that arrived an hour late or more, by airport",
        kind: Kind::Group("arr_delay >= 60 and hour >= 20", &["origin"], &["arr_delay"]),
    },
    DemoQuery {
        about: "How the first of these questions was answered",
        kind: Kind::Explain(LATE_DELTA),
    },
];

/// An answer in both forms: lines of text, and a value for programs.
struct Answer {
    lines: Vec<String>,
    json: Json,
    time: Duration,
}

/// Runs all queries and prints the answers. Returns their number.
pub fn run_all(out: &mut Out, reader: &Reader, dir: &str, json: bool) -> Result<usize> {
    for (number, query) in (1..).zip(&QUERIES) {
        let command = query.kind.command(dir);
        let answer = query.kind.answer(reader)?;
        if json {
            out.json(&json!({
                "question": query.about,
                "command": command,
                "elapsed_seconds": answer.time.as_secs_f64(),
                "answer": answer.json,
            }))?;
        } else {
            out.line(format!("{number}. {}\n   {command}\n", query.about))?;
            answer.lines.iter().try_for_each(|line| out.line(line))?;
            out.line(format!("median of {REPEATS}: {}\n", time(answer.time)))?;
        }
    }
    Ok(QUERIES.len())
}

impl Kind {
    /// The equivalent command line.
    fn command(&self, dir: &str) -> String {
        match self {
            Kind::Find(text, fields) | Kind::Deep(text, fields) => {
                format!("firn search query {dir} \"{text}\" --fields {}", fields.join(","))
            }
            Kind::Count(text) => format!("firn search count {dir} \"{text}\""),
            Kind::Facets(text, by, disjunctive) => {
                let flag = if *disjunctive { " --disjunctive" } else { "" };
                format!("firn search facets {dir} \"{text}\" --by {} --top 5{flag}", by.join(","))
            }
            Kind::Group(text, by, fields) => {
                let agg = if fields.is_empty() { "" } else { " --agg " };
                let (by, fields) = (by.join(","), fields.join(","));
                format!("firn search group {dir} \"{text}\" --by {by}{agg}{fields}")
            }
            Kind::Explain(text) => format!("firn search explain {dir} \"{text}\""),
        }
    }

    fn answer(&self, reader: &Reader) -> Result<Answer> {
        match self {
            Kind::Find(text, fields) => {
                let query = query_of(text, reader.schema())?.with_count();
                let (page, time) = timed(|| reader.search(&query))?;
                let mut answer = page_answer(reader, &page.hits, fields, time)?;
                let count = page.count.unwrap_or_default();
                answer.lines.push(format!("of {}", plural(count, "document")));
                answer.json["count"] = Json::from(count);
                Ok(answer)
            }
            Kind::Deep(text, fields) => deep(reader, &query_of(text, reader.schema())?, fields),
            Kind::Count(text) => {
                let filter = filter_of(text, reader.schema())?;
                let (count, time) = timed(|| reader.count(&filter))?;
                let lines = vec![plural(count, "document")];
                Ok(Answer { lines, json: json!({ "count": count }), time })
            }
            Kind::Facets(text, by, disjunctive) => facets_answer(reader, text, by, *disjunctive),
            Kind::Group(text, by, aggregates) => {
                let filter = filter_of(text, reader.schema())?;
                let by = GroupBy::new(by.iter().copied()).aggregates(aggregates.iter().copied());
                let (groups, time) = timed(|| reader.group_by(&filter, &by))?;
                let lines = vec![group::as_table(&groups, &by).to_string()];
                let json = groups.iter().map(|g| group_to_json(g, &by)).collect();
                Ok(Answer { lines, json, time })
            }
            Kind::Explain(text) => {
                let query = query_of(text, reader.schema())?;
                let (explain, time) = timed(|| reader.explain(&query))?;
                let lines = explain.to_string().lines().map(str::to_string).collect();
                Ok(Answer { lines, json: json!({ "plan": explain.plan }), time })
            }
        }
    }
}

fn facets_answer(reader: &Reader, text: &str, by: &[&str], disjunctive: bool) -> Result<Answer> {
    let filter = filter_of(text, reader.schema())?;
    let facet = |field: &&str| {
        let mut facet = Facet::new(*field).top(5);
        facet.disjunctive = disjunctive;
        facet
    };
    let wanted: Vec<Facet> = by.iter().map(facet).collect();
    let (counts, time) = timed(|| reader.facets(&filter, &wanted))?;
    let tables: Vec<String> = counts.iter().map(|c| facets::as_table(c).to_string()).collect();
    let lines = vec![tables.join("\n\n")];
    Ok(Answer { lines, json: counts.iter().map(facet_to_json).collect(), time })
}

/// The page by `skip`, and by the page token of the document before it: both must be the same.
fn deep(reader: &Reader, query: &Query, fields: &[&str]) -> Result<Answer> {
    let (page, by_skip) = timed(|| reader.search(query))?;
    let before = query.clone().skip(query.skip.saturating_sub(1)).limit(1);
    let mut after = query.clone().skip(0);
    match reader.search(&before)?.hits.first() {
        Some(hit) => after = after.after(reader.page_token(query, *hit)?),
        // There are fewer documents, and none follows them.
        None => after.limit = Some(0),
    }
    let (again, by_token) = timed(|| reader.search(&after))?;
    if again.hits != page.hits {
        let message = "the page by skip and the page by page token differ";
        return Err(Error::new(ErrorKind::Failed, message).into());
    }
    let mut answer = page_answer(reader, &page.hits, fields, by_token)?;
    answer.lines.push(format!(
        "by skip: {}; by the page token of the previous page: {}, the same page",
        time(by_skip),
        time(by_token)
    ));
    answer.json["skip_seconds"] = Json::from(by_skip.as_secs_f64());
    Ok(answer)
}

fn page_answer(reader: &Reader, hits: &[Hit], fields: &[&str], time: Duration) -> Result<Answer> {
    let mut grid = Grid::new(fields);
    let names: Vec<String> = fields.iter().map(|field| field.to_string()).collect();
    let mut documents = Vec::with_capacity(hits.len());
    for hit in hits {
        let mut row = Vec::with_capacity(fields.len());
        for field in fields {
            let values = reader.values(*hit, field)?;
            row.push(values.iter().map(to_text).collect::<Vec<String>>().join(", "));
        }
        grid.row(row);
        documents.push(Json::Object(fields_to_json(reader, *hit, &names)?));
    }
    Ok(Answer { lines: vec![grid.to_string()], json: json!({ "documents": documents }), time })
}

/// The result and the median time of several calls.
pub fn timed<T>(call: impl Fn() -> firndb::Result<T>) -> firndb::Result<(T, Duration)> {
    let mut times = Vec::with_capacity(REPEATS);
    loop {
        let start = Instant::now();
        let result = call()?;
        times.push(start.elapsed());
        if times.len() == REPEATS {
            times.sort_unstable();
            return Ok((result, times[REPEATS / 2]));
        }
    }
}

/// An average as text.
pub fn minutes(average: Option<f64>) -> String {
    average.map_or("-".to_string(), |average| format!("{} minutes", decimal(average)))
}
