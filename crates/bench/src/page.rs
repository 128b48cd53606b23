//! The parts that all pages of figures have in common.

use std::fmt::Write;

/// How many targets a run covers, and how many of them it meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Targets that are met.
    pub met: usize,
    /// All targets that the figures of the run cover.
    pub all: usize,
}

impl Tally {
    /// Counts a target.
    pub fn add(&mut self, is_met: bool) {
        self.met += usize::from(is_met);
        self.all += 1;
    }
}

/// A comparison in which peers are better than FirnDB.
#[derive(Debug)]
pub struct Loss {
    /// The peers that are better.
    pub peers: Vec<String>,
    /// A line with the figures.
    pub line: String,
}

/// The sentences on targets and losses that begin a page.
pub fn summary(tally: Tally, losses: &[Loss]) -> String {
    let mut text = format!("FirnDB meets {} of {} targets.", tally.met, tally.all);
    let mut peers: Vec<(&str, usize)> = Vec::new();
    for peer in losses.iter().flat_map(|loss| &loss.peers) {
        match peers.iter_mut().find(|(name, _)| name == peer) {
            Some((_, count)) => *count += 1,
            None => peers.push((peer, 1)),
        }
    }
    peers.sort_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
    let peers: Vec<String> =
        peers.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    if !peers.is_empty() {
        let _ = write!(
            text,
            " Peers are better in {} comparisons ({}), listed under [Where a peer \
             wins](#where-a-peer-wins).",
            losses.len(),
            peers.join(", ")
        );
    }
    text
}

/// The section of the losses; `introduction` ends with an empty line, or is empty.
pub fn losses(losses: &[Loss], introduction: &str, out: &mut String) {
    let _ = write!(out, "## Where a peer wins\n\n{introduction}");
    for loss in losses {
        let _ = writeln!(out, "- {}", loss.line);
    }
    if losses.is_empty() {
        let _ = writeln!(out, "Nowhere in this run.");
    }
    out.push('\n');
}

/// A row of a table.
pub fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// The header of a table whose first `text` columns are text; the others are numbers.
pub fn head(out: &mut String, text: usize, cells: &[&str]) {
    let columns = "---|".repeat(text) + &"---:|".repeat(cells.len() - text);
    let _ = writeln!(out, "| {} |\n|{columns}", cells.join(" | "));
}

/// A value in words; a dash if it was not measured.
pub fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or("-".into(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(peers: &[&str]) -> Loss {
        Loss { peers: peers.iter().map(|peer| peer.to_string()).collect(), line: "x".into() }
    }

    #[test]
    fn a_summary_counts_targets_and_the_comparisons_that_each_peer_wins() {
        let mut tally = Tally::default();
        [true, false, true].into_iter().for_each(|is_met| tally.add(is_met));
        assert_eq!(summary(tally, &[]), "FirnDB meets 2 of 3 targets.");
        let text = summary(tally, &[loss(&["lmdb"]), loss(&["cdb", "phf"]), loss(&["phf"])]);
        assert!(text.contains(" 3 comparisons (phf in 2, cdb in 1, lmdb in 1), "), "{text}");
    }

    #[test]
    fn a_run_without_losses_says_so() {
        let mut out = String::new();
        losses(&[], "", &mut out);
        assert_eq!(out, "## Where a peer wins\n\nNowhere in this run.\n\n");
    }
}
