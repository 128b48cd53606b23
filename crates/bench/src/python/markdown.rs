//! Formats the figures as a Markdown page.

use super::{Figures, Report};
use crate::machine;
use crate::page::Tally;
use crate::units::time;
use std::fmt::Write;

/// Returns the page.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    let mut tally = Tally::default();
    let targets = report.figures.iter().flat_map(Figures::targets);
    targets.for_each(|(target, ratio)| tally.add(target.bound.holds(ratio)));
    writeln!(page, "# Benchmarks: the Python package\n")?;
    writeln!(
        page,
        "Measured on {} on {}, with {}. To run it: `cargo xtask bench python`. FirnDB meets {} of \
         {} targets.\n",
        machine::today(),
        machine::describe(),
        report.versions,
        tally.met,
        tally.all
    )?;
    writeln!(
        page,
        "The package is a wheel in release mode. The engines of a comparison are in one process, \
         with the same data from a seed, and their answers are compared before anything is timed. \
         Rounds of the engines alternate, the garbage collector of Python is off, figures are \
         medians of the rounds, and a ratio is the median of the ratios of the rounds.\n"
    )?;
    report.figures.iter().try_for_each(|figures| write_figures(page, figures))
}

fn write_figures(page: &mut String, figures: &Figures) -> std::fmt::Result {
    let part = figures.part;
    let (what, _) = part.size;
    writeln!(page, "## {}\n\n{} {} {what}.\n", part.title, part.text, figures.size)?;
    writeln!(page, "| | per {} | slowest round |\n|---|---:|---:|", part.unit)?;
    for (name, rounds) in &figures.engines {
        let slowest = rounds.iter().copied().fold(0.0, f64::max);
        let median = figures.median(name).unwrap_or(f64::NAN);
        writeln!(page, "| {name} | {} | {} |", time(median), time(slowest))?;
    }
    writeln!(page, "\n| target | measured | bound | |\n|---|---|---|---|")?;
    for (target, ratio) in figures.targets() {
        let bound = &target.bound;
        let (text, verdict) = (bound.text(), bound.verdict(ratio));
        writeln!(page, "| {} | {ratio:.2} | {text} | {verdict} |", target.what)?;
    }
    writeln!(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::PARTS;

    #[test]
    fn a_page_has_figures_and_verdicts() {
        let engines = [("firndb", 120.0), ("lmdb", 110.0), ("rocksdict", 900.0)];
        let engines = engines.map(|(name, nanos)| (name.to_string(), vec![nanos])).into();
        let figures = vec![Figures { part: &PARTS[0], size: 1000, engines }];
        let page = page(&Report { versions: "Python 3.11".into(), figures });
        for line in [
            "| firndb | 120 ns | 120 ns |",
            "| gets: times rocksdict | 7.50 | at least 1.5 | met |",
            "| gets: times lmdb | 0.92 | at least 1 | **missed** |",
            "with Python 3.11.",
            "FirnDB meets 1 of 2 targets.",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }
}
