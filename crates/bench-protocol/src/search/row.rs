//! The rows of the data sets: tab-separated text with a header line, written once and read by every
//! engine.

use crate::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A car offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Car<'a> {
    /// Number of the row.
    pub id: u64,
    /// Region, 0 to 999.
    pub region: u32,
    /// Make of the car.
    pub mark: &'a str,
    /// Model; its name belongs to one make.
    pub model: &'a str,
    /// Year it was built.
    pub year: u32,
    /// Price, a multiple of 1,000.
    pub price: u32,
    /// Distance driven.
    pub mileage: u32,
    /// Seconds since the epoch.
    pub date: i64,
    /// Millionths of a degree.
    pub lat: i32,
    /// Millionths of a degree.
    pub lon: i32,
    /// Shape.
    pub body_type: &'a str,
    /// Colour.
    pub color: &'a str,
    /// Zero to eight different words, joined by commas.
    pub tags: &'a str,
    /// JSON text.
    pub payload: &'a str,
}

impl<'a> Car<'a> {
    /// Names of the columns, in the order of the file.
    pub const HEADER: &'static str = concat!(
        "id\tregion_id\tmark\tmodel\tyear\tprice\tmileage\tdate\tlat\tlon\t",
        "body_type\tcolor\ttags\tpayload"
    );

    /// The words of `tags`.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> {
        self.tags.split(',').filter(|tag| !tag.is_empty())
    }

    fn parse(line: &'a str) -> Result<Car<'a>> {
        let mut columns = line.split('\t');
        let mut next = || columns.next().ok_or("a row has fewer than 14 columns");
        Ok(Car {
            id: next()?.parse()?,
            region: next()?.parse()?,
            mark: next()?,
            model: next()?,
            year: next()?.parse()?,
            price: next()?.parse()?,
            mileage: next()?.parse()?,
            date: next()?.parse()?,
            lat: next()?.parse()?,
            lon: next()?.parse()?,
            body_type: next()?,
            color: next()?,
            tags: next()?,
            payload: next()?,
        })
    }
}

/// A row of the small table of the YoctoDB paper: two columns of ten values each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Number of the row.
    pub id: u64,
    /// MD5 of the last digit of `id`.
    pub f: &'a str,
    /// MD5 of the second-to-last digit.
    pub g: &'a str,
}

impl<'a> Pair<'a> {
    /// Names of the columns, in the order of the file.
    pub const HEADER: &'static str = "id\tf\tg";

    fn parse(line: &'a str) -> Result<Pair<'a>> {
        let mut columns = line.split('\t');
        let mut next = || columns.next().ok_or("a row has fewer than 3 columns");
        Ok(Pair { id: next()?.parse()?, f: next()?, g: next()? })
    }
}

/// Calls `each` for every car offer of a file, in order.
pub fn each_car(path: &Path, mut each: impl FnMut(Car<'_>) -> Result<()>) -> Result<()> {
    each_line(path, Car::HEADER, |line| each(Car::parse(line)?))
}

/// Calls `each` for every row of a file of the small table, in order.
pub fn each_pair(path: &Path, mut each: impl FnMut(Pair<'_>) -> Result<()>) -> Result<()> {
    each_line(path, Pair::HEADER, |line| each(Pair::parse(line)?))
}

fn each_line(path: &Path, head: &str, mut each: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let place = |number: usize, error: Error| -> Error {
        format!("{}, line {number}: {error}", path.display()).into()
    };
    let file = File::open(path).map_err(|e| place(0, e.into()))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if reader.read_line(&mut line).map_err(|e| place(number, e.into()))? == 0 {
            break;
        }
        let text = line.trim_end_matches('\n');
        if number == 1 && text != head {
            return Err(place(number, format!("the header is not `{head}`").into()));
        }
        if number > 1 {
            each(text).map_err(|e| place(number, e))?;
        }
    }
    Ok(())
}
