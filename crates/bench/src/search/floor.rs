//! The floor: for each kind of query the smallest hand-written in-memory arrays that answer it.
//!
//! It is not an engine: it stores, parses, plans and checks nothing, and each structure serves one
//! query. It shows how close an engine comes to the limits of the machine.

use super::columns::{Cars, Pairs, Words};
use firndb_bench_protocol::search::{Answer, Engine, Hit, Query, Session, Workload};
use firndb_bench_protocol::{Error, Result};
use std::cmp::Reverse;
use std::fs;
use std::path::Path;

/// The floor probe as an engine.
pub struct Floor;

/// The file with the path of the data.
const LINK: &str = "data.path";

impl Engine for Floor {
    type Session = Arrays;

    fn version(&self) -> String {
        "floor (bare arrays)".into()
    }

    fn build(&self, _: Workload, data: &Path, dir: &Path) -> Result<()> {
        Ok(fs::write(dir.join(LINK), data.to_string_lossy().as_bytes())?)
    }

    fn open(&self, workload: Workload, dir: &Path) -> Result<Arrays> {
        let data = fs::read_to_string(dir.join(LINK))?;
        Ok(match workload {
            Workload::Cars => Arrays::Cars(Box::new(Offers::new(Cars::read(data.as_ref())?))),
            Workload::Table1 => Arrays::Table1(Digits::new(Pairs::read(data.as_ref())?)),
        })
    }
}

/// The arrays of a workload.
pub enum Arrays {
    /// Car offers.
    Cars(Box<Offers>),
    /// The small table.
    Table1(Digits),
}

/// A query with its words replaced by codes.
#[allow(missing_docs, reason = "the fields are those of `Query`")]
pub enum Coded {
    Q1 { region: usize },
    Q2 { region: usize, mark: u16, price: (u32, u32) },
    Q3 { marks: Vec<bool>, year: u16, color: u16 },
    Q4 { lat: (i32, i32), lon: (i32, i32) },
    Q5,
    Q6 { tags: Vec<usize>, price: u32 },
    A { f: usize },
    B { f: usize, g: usize },
}

impl Session for Arrays {
    type Prepared = Coded;

    fn prepare(&mut self, query: &Query) -> Result<Coded> {
        Ok(match (&*self, query) {
            (Arrays::Cars(offers), _) => offers.code(query)?,
            (Arrays::Table1(digits), Query::A { f }) => Coded::A { f: digits.code(f) },
            (Arrays::Table1(digits), Query::B { f, g }) => {
                Coded::B { f: digits.code(f), g: digits.code(g) }
            }
            _ => return Err(wrong()),
        })
    }

    fn run(&mut self, query: &Coded, answer: &mut Answer) -> Result<()> {
        match (self, query) {
            (Arrays::Cars(offers), query) => return offers.run(query, answer),
            (Arrays::Table1(digits), Coded::A { f }) => answer.set_count(digits.counts[*f]),
            (Arrays::Table1(digits), Coded::B { f, g }) => {
                let both = digits.f[*f].iter().zip(&digits.g[*g]);
                answer.set_count(both.map(|(f, g)| u64::from((f & g).count_ones())).sum());
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

/// A bitmap and a count for each value; the last one is for unknown words.
pub struct Digits {
    words: Words,
    counts: Vec<u64>,
    f: Vec<Vec<u64>>,
    g: Vec<Vec<u64>>,
}

impl Digits {
    fn new(pairs: Pairs) -> Digits {
        let (f, g) = (bitmaps(&pairs.f, 10), bitmaps(&pairs.g, 10));
        let ones = |map: &Vec<u64>| map.iter().map(|word| u64::from(word.count_ones())).sum();
        Digits { words: pairs.words, counts: f.iter().map(ones).collect(), f, g }
    }

    fn code(&self, word: &str) -> usize {
        usize::from(self.words.find(word)).min(10)
    }
}

fn bitmaps(codes: &[u16], values: usize) -> Vec<Vec<u64>> {
    let mut maps = vec![vec![0u64; codes.len().div_ceil(64)]; values + 1];
    for (doc, &code) in codes.iter().enumerate() {
        maps[usize::from(code)][doc / 64] |= 1 << (doc % 64);
    }
    maps
}

/// Car offers. Documents are numbered from the newest to the oldest.
pub struct Offers {
    cars: Cars,
    /// Document number to id.
    ids: Vec<u32>,
    /// Documents of each region and of each mark, and the columns that Q2 tests, by document.
    by_region: Vec<Vec<u32>>,
    by_mark: Vec<Vec<u32>>,
    columns: Vec<Columns>,
    /// Documents by ascending price, the newest first, with the columns that Q3 tests in that
    /// order.
    by_price: Vec<u32>,
    mark_year_color: Vec<(u16, u16, u16)>,
    /// Prices in that order, and for each tag the positions that have it.
    prices: Vec<u32>,
    tags: Vec<Vec<u64>>,
    grid: Grid,
}

/// The columns that Q2 tests.
struct Columns {
    region: u16,
    mark: u16,
    price: u32,
}

impl Offers {
    fn new(cars: Cars) -> Offers {
        let mut ids: Vec<u32> = (0..cars.len() as u32).collect();
        ids.sort_by_key(|&id| Reverse(cars.date[id as usize]));
        let car = |doc: u32| ids[doc as usize] as usize;
        let docs = || 0..ids.len() as u32;
        let mut by_price: Vec<u32> = docs().collect();
        by_price.sort_by_key(|&doc| cars.price[car(doc)]);
        let (mut by_region, mut by_mark) = (Vec::new(), Vec::new());
        let mut columns = Vec::with_capacity(ids.len());
        for doc in docs() {
            let (region, mark) = (cars.region[car(doc)], cars.mark[car(doc)]);
            post(&mut by_region, region, doc);
            post(&mut by_mark, mark, doc);
            columns.push(Columns { region, mark, price: cars.price[car(doc)] });
        }
        let mut tags = vec![vec![0u64; ids.len().div_ceil(64)]; cars.tags.len() + 1];
        for (place, &doc) in by_price.iter().enumerate() {
            for &tag in cars.tags_of(car(doc)) {
                tags[usize::from(tag)][place / 64] |= 1 << (place % 64);
            }
        }
        let tested = |&doc: &u32| {
            let car = car(doc);
            (cars.mark[car], cars.year[car], cars.color[car])
        };
        Offers {
            by_region,
            by_mark,
            columns,
            mark_year_color: by_price.iter().map(tested).collect(),
            prices: by_price.iter().map(|&doc| cars.price[car(doc)]).collect(),
            tags,
            grid: Grid::new(&cars.lat, &cars.lon),
            by_price,
            ids,
            cars,
        }
    }

    fn code(&self, query: &Query) -> Result<Coded> {
        let cars = &self.cars;
        Ok(match query {
            Query::Q1 { region } => Coded::Q1 { region: *region as usize },
            Query::Q2 { region, mark, price } => {
                Coded::Q2 { region: *region as usize, mark: cars.marks.find(mark), price: *price }
            }
            Query::Q3 { marks, year, color } => {
                let mut wanted = vec![false; cars.marks.len()];
                for code in marks.iter().map(|mark| usize::from(cars.marks.find(mark))) {
                    wanted.get_mut(code).into_iter().for_each(|mark| *mark = true);
                }
                Coded::Q3 {
                    marks: wanted,
                    year: u16::try_from(*year)?,
                    color: cars.colors.find(color),
                }
            }
            Query::Q4 { lat, lon } => Coded::Q4 { lat: *lat, lon: *lon },
            Query::Q5 => Coded::Q5,
            Query::Q6 { tags, price } => {
                let code = |tag: &String| usize::from(cars.tags.find(tag)).min(cars.tags.len());
                Coded::Q6 { tags: tags.iter().map(code).collect(), price: *price }
            }
            _ => return Err(wrong()),
        })
    }

    fn run(&self, query: &Coded, answer: &mut Answer) -> Result<()> {
        match query {
            Coded::Q1 { region } => {
                answer.set_count(self.by_region.get(*region).map_or(0, |docs| docs.len() as u64));
            }
            Coded::Q2 { region, mark, price } => self.q2(*region, *mark, *price, answer),
            Coded::Q3 { marks, year, color } => {
                let holds = |&(_, &(mark, of, paint)): &(&u32, &(u16, u16, u16))| {
                    marks[usize::from(mark)] && of >= *year && paint != *color
                };
                let walk = self.by_price.iter().zip(&self.mark_year_color);
                walk.filter(holds).take(50).for_each(|(&doc, _)| {
                    let key = i64::from(self.columns[doc as usize].price);
                    answer.push(self.hit(doc, |date| [key, date]));
                });
            }
            Coded::Q4 { lat, lon } => answer.set_count(self.grid.count(*lat, *lon)),
            Coded::Q5 => {
                (0..self.ids.len().min(20) as u32)
                    .for_each(|doc| answer.push(self.hit(doc, |date| [date, 0])));
            }
            Coded::Q6 { tags, price } => answer.set_count(self.q6(tags, *price)),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Walks the shorter list from the newest document on; stops after ten hits.
    fn q2(&self, region: usize, mark: u16, price: (u32, u32), answer: &mut Answer) {
        let none = Vec::new();
        let of_region = self.by_region.get(region).unwrap_or(&none);
        let of_mark = self.by_mark.get(usize::from(mark)).unwrap_or(&none);
        let shorter = if of_region.len() < of_mark.len() { of_region } else { of_mark };
        let holds = |&&doc: &&u32| {
            let Columns { region: r, mark: m, price: p } = self.columns[doc as usize];
            usize::from(r) == region && m == mark && (price.0..=price.1).contains(&p)
        };
        for &doc in shorter.iter().filter(holds).take(10) {
            let payload = self.cars.payload_sum(self.ids[doc as usize] as usize);
            answer.push(Hit { payload, ..self.hit(doc, |date| [date, 0]) });
        }
    }

    /// Counts documents of any of the tags among the cheapest: the bitmaps are in price order.
    fn q6(&self, tags: &[usize], price: u32) -> u64 {
        let places = self.prices.partition_point(|&p| p <= price);
        let any = |word: usize| tags.iter().fold(0, |any, &tag| any | self.tags[tag][word]);
        let whole: u64 = (0..places / 64).map(|word| u64::from(any(word).count_ones())).sum();
        let rest = places % 64;
        if rest == 0 {
            return whole;
        }
        whole + u64::from((any(places / 64) & ((1 << rest) - 1)).count_ones())
    }

    fn hit(&self, doc: u32, keys: impl Fn(i64) -> [i64; 2]) -> Hit {
        let id = self.ids[doc as usize];
        Hit { id: u64::from(id), keys: keys(self.cars.date[id as usize]), payload: 0 }
    }
}

fn post(lists: &mut Vec<Vec<u32>>, value: u16, doc: u32) {
    if lists.len() <= usize::from(value) {
        lists.resize_with(usize::from(value) + 1, Vec::new);
    }
    lists[usize::from(value)].push(doc);
}

/// Locations in cells of 0.1 degrees, row by row: cells inside a box are counted by subtracting two
/// offsets per row; only cells on its border are scanned.
struct Grid {
    origin: (i32, i32),
    rows: i32,
    columns: i32,
    starts: Vec<u32>,
    places: Vec<(i32, i32)>,
}

const CELL: i32 = 100_000;

impl Grid {
    fn new(lat: &[i32], lon: &[i32]) -> Grid {
        let low = |values: &[i32]| values.iter().min().map_or(0, |v| v.div_euclid(CELL));
        let high = |values: &[i32]| values.iter().max().map_or(0, |v| v.div_euclid(CELL));
        let origin = (low(lat), low(lon));
        let (rows, columns) = (high(lat) - origin.0 + 1, high(lon) - origin.1 + 1);
        let mut grid = Grid { origin, rows, columns, starts: Vec::new(), places: Vec::new() };
        let mut places: Vec<(i32, i32)> = lat.iter().copied().zip(lon.iter().copied()).collect();
        places.sort_unstable_by_key(|&place| grid.cell(place));
        grid.starts = vec![0; (rows * columns + 1) as usize];
        for &place in &places {
            let cell = grid.cell(place);
            grid.starts[cell + 1] += 1;
        }
        for cell in 0..(rows * columns) as usize {
            grid.starts[cell + 1] += grid.starts[cell];
        }
        grid.places = places;
        grid
    }

    fn cell(&self, (lat, lon): (i32, i32)) -> usize {
        let row = lat.div_euclid(CELL) - self.origin.0;
        let column = lon.div_euclid(CELL) - self.origin.1;
        (row * self.columns + column) as usize
    }

    fn count(&self, lat: (i32, i32), lon: (i32, i32)) -> u64 {
        let clip = |v: i32, origin: i32, n: i32| (v.div_euclid(CELL) - origin).clamp(-1, n);
        let rows = (clip(lat.0, self.origin.0, self.rows), clip(lat.1, self.origin.0, self.rows));
        let (left, right) =
            (clip(lon.0, self.origin.1, self.columns), clip(lon.1, self.origin.1, self.columns));
        let inside =
            |&&(a, o): &&(i32, i32)| (lat.0..=lat.1).contains(&a) && (lon.0..=lon.1).contains(&o);
        let compare = |from: usize, to: usize| {
            let cells = &self.places[self.starts[from] as usize..self.starts[to] as usize];
            cells.iter().filter(inside).count() as u64
        };
        let mut count = 0;
        for row in rows.0.max(0)..=rows.1.min(self.rows - 1) {
            let at = |column: i32| (row * self.columns + column) as usize;
            let (first, last) = (left.max(0), right.min(self.columns - 1));
            if first > last {
                continue;
            }
            if row == rows.0 || row == rows.1 || last - first < 2 {
                count += compare(at(first), at(last) + 1);
                continue;
            }
            count += compare(at(first), at(first) + 1) + compare(at(last), at(last) + 1);
            count += u64::from(self.starts[at(last)] - self.starts[at(first) + 1]);
        }
        count
    }
}

fn wrong() -> Error {
    "the query belongs to another workload".into()
}
