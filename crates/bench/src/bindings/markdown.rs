//! Formats the figures as a Markdown page.

use super::{Figures, Report, median};
use crate::machine;
use crate::page::{Tally, or_dash};
use crate::units::{count, time};
use std::fmt::Write;

/// Returns the page.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    let suite = report.suite;
    let mut tally = Tally::default();
    let targets = report.figures.iter().flat_map(Figures::targets);
    targets.for_each(|(target, figure)| tally.add(target.bound.holds(figure)));
    writeln!(page, "# Benchmarks: {}\n", suite.title)?;
    writeln!(
        page,
        "Measured on {} on {}, with {}. To run it: `cargo xtask bench {}`. FirnDB meets {} of {} \
         targets.\n",
        machine::today(),
        machine::describe(),
        report.versions,
        suite.verb,
        tally.met,
        tally.all
    )?;
    writeln!(page, "{}\n", suite.text)?;
    report.figures.iter().try_for_each(|figures| write_figures(page, figures))
}

fn write_figures(page: &mut String, figures: &Figures) -> std::fmt::Result {
    let part = figures.part;
    let (what, _) = part.size;
    writeln!(page, "## {}\n\n{} {} {what}.\n", part.title, part.text, count(figures.size))?;
    let (head, line) = match figures.bytes.is_empty() {
        true => ("", ""),
        false => (" allocated |", "---:|"),
    };
    writeln!(page, "| | per {} | slowest round |{head}\n|---|---:|---:|{line}", part.unit)?;
    for (name, rounds) in &figures.nanos {
        let slowest = rounds.iter().copied().fold(0.0, f64::max);
        write!(page, "| {name} | {} | {} |", time(median(rounds.clone())), time(slowest))?;
        if !figures.bytes.is_empty() {
            let show = |bytes: &Vec<f64>| format!("{:.0} B", median(bytes.clone()));
            write!(page, " {} |", or_dash(figures.bytes.get(name), show))?;
        }
        writeln!(page)?;
    }
    writeln!(page, "\n| target | measured | bound | |\n|---|---|---|---|")?;
    for (target, figure) in figures.targets() {
        let bound = &target.bound;
        let (text, verdict) = (bound.text(), bound.verdict(figure));
        writeln!(page, "| {} | {figure:.2} | {text} | {verdict} |", target.what)?;
    }
    writeln!(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::{Suite, java, python};

    fn report(suite: &'static Suite, engines: &[(&str, f64)], bytes: &[(&str, f64)]) -> String {
        let rounds = |engines: &[(&str, f64)]| {
            engines.iter().map(|(name, figure)| (name.to_string(), vec![*figure])).collect()
        };
        let (nanos, bytes) = (rounds(engines), rounds(bytes));
        let figures = vec![Figures { part: &suite.parts[0], size: 1000, nanos, bytes }];
        page(&Report { suite, versions: "Python 3.11".into(), figures })
    }

    #[test]
    fn a_page_has_figures_and_verdicts() {
        let engines = [("firndb", 120.0), ("lmdb", 110.0), ("rocksdict", 900.0)];
        let page = report(&python::SUITE, &engines, &[]);
        for line in [
            " 1,000 records.\n",
            "| firndb | 120 ns | 120 ns |\n",
            "| gets: times rocksdict | 7.50 | at least 1.5 | met |",
            "| gets: times lmdb | 0.92 | at least 1 | **missed** |",
            "with Python 3.11.",
            "FirnDB meets 1 of 2 targets.",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }

    #[test]
    fn a_page_has_the_bytes_that_were_measured() {
        let engines = [("firndb, into a buffer", 120.0), ("rocksdb, into a buffer", 240.0)];
        let page = report(&java::SUITE, &engines, &[("firndb, into a buffer", 0.004)]);
        for line in [
            "| | per get | slowest round | allocated |\n|---|---:|---:|---:|\n",
            "| firndb, into a buffer | 120 ns | 120 ns | 0 B |\n",
            "| rocksdb, into a buffer | 240 ns | 240 ns | - |\n",
            "| gets into a buffer: bytes allocated | 0.00 | at most 0 | met |",
            "| gets into a buffer: times rocksdbjni | 2.00 | at least 3 | **missed** |",
            "FirnDB meets 1 of 2 targets.",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }
}
