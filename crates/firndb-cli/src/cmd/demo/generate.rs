//! Generates flights from a seed, for machines without a network: as many as the real ones, with
//! the same columns, carriers and rough proportions.

use crate::interrupt;
use firndb::{Error, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The number of real flights.
pub const FLIGHTS: u64 = 336_776;
const SEED: u64 = 2013;

/// Carriers, each with its share of a thousand flights.
const CARRIERS: [(&str, u64); 12] = [
    ("UA", 174),
    ("B6", 162),
    ("EV", 161),
    ("DL", 143),
    ("AA", 97),
    ("MQ", 78),
    ("US", 61),
    ("9E", 55),
    ("WN", 37),
    ("VX", 16),
    ("FL", 12),
    ("HA", 4),
];

/// Destinations, each with its distance from New York in miles.
const AIRPORTS: [(&str, u64); 24] = [
    ("ATL", 760),
    ("ORD", 730),
    ("LAX", 2470),
    ("BOS", 190),
    ("MCO", 945),
    ("CLT", 540),
    ("SFO", 2575),
    ("FLL", 1070),
    ("MIA", 1090),
    ("DCA", 212),
    ("DTW", 500),
    ("DFW", 1380),
    ("RDU", 425),
    ("TPA", 1005),
    ("DEN", 1610),
    ("IAH", 1410),
    ("MSP", 1020),
    ("PBI", 1030),
    ("BNA", 760),
    ("LAS", 2240),
    ("SJU", 1600),
    ("IAD", 225),
    ("SEA", 2410),
    ("HNL", 4975),
];

const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const HEADER: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,\
                      arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,\
                      time_hour";

/// The path of a CSV file of `flights` rows in `cache`, written if it is missing.
pub fn flights_csv(cache: &Path, flights: u64) -> Result<PathBuf> {
    let csv = cache.join(format!("generated-{flights}.csv"));
    if csv.exists() {
        return Ok(csv);
    }
    let fail = |e| Error::io("write", &csv, e);
    fs::create_dir_all(cache).map_err(fail)?;
    let temporary = csv.with_extension("csv.tmp");
    let registered = interrupt::temporary(&temporary);
    let mut out = BufWriter::new(File::create(&temporary).map_err(fail)?);
    writeln!(out, "{HEADER}").map_err(fail)?;
    let mut random = Random(SEED);
    let (mut written, mut day_of_year) = (0, 0);
    for (month, days) in (1..).zip(DAYS) {
        for day in 1..=days {
            day_of_year += 1;
            while written < flights * day_of_year / 365 {
                writeln!(out, "{}", flight(&mut random, month, day)).map_err(fail)?;
                written += 1;
            }
        }
    }
    out.into_inner().map_err(|e| fail(e.into_error()))?;
    fs::rename(&temporary, &csv).map_err(fail)?;
    drop(registered);
    Ok(csv)
}

/// A row of the CSV file.
fn flight(random: &mut Random, month: u64, day: u64) -> String {
    let carrier = random.weighted(&CARRIERS);
    let (dest, distance) = AIRPORTS[random.below(AIRPORTS.len() as u64) as usize];
    let origin = ["EWR", "JFK", "LGA"][random.below(3) as usize];
    let (number, tail) = (random.below(6000) + 1, random.below(4000) + 10_000);
    let scheduled = 300 + random.below(1080);
    let (hour, minute) = (scheduled / 60, scheduled % 60);
    let air_time = distance / 8 + 20 + random.below(20);
    let arrival = scheduled + air_time + 30;
    // Most flights leave a little early; one in ten is late, by an hour on average.
    let late = random.below(10) == 0;
    let delay = if late { random.below(120) as i64 } else { random.below(20) as i64 - 10 };
    let gain = random.below(30) as i64 - 20;
    let cancelled = random.below(40) == 0;
    let clock = |minutes: u64| minutes / 60 % 24 * 100 + minutes % 60;
    let actual = |minutes: u64, delay: i64| match cancelled {
        true => "NA,".to_string(),
        false => format!("{},", clock(minutes.saturating_add_signed(delay))),
    };
    let known = |number: i64| if cancelled { "NA".to_string() } else { number.to_string() };
    format!(
        "2013,{month},{day},{}{},{},{}{},{},{carrier},{number},N{tail},{origin},{dest},{},\
         {distance},{hour},{minute},2013-{month:02}-{day:02}T{hour:02}:00:00Z",
        actual(scheduled, delay),
        clock(scheduled),
        known(delay),
        actual(arrival, delay + gain),
        clock(arrival),
        known(delay + gain),
        known(air_time as i64),
    )
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn weighted(&mut self, choices: &[(&'static str, u64)]) -> &'static str {
        let mut left = self.below(choices.iter().map(|(_, weight)| weight).sum());
        for (choice, weight) in choices {
            if left < *weight {
                return choice;
            }
            left -= weight;
        }
        choices[0].0
    }
}
