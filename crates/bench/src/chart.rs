//! Draws times as bars on a logarithmic scale, in a self-contained SVG.

use crate::units::{is_ours, time};
use std::fmt::Write;

const LEFT: f64 = 130.0;
const WIDTH: f64 = 560.0;
const BAR: f64 = 14.0;
const GAP: f64 = 12.0;

/// A titled group of bars: engines and their times in nanoseconds.
pub struct Group {
    /// Shown once, at the left.
    pub title: String,
    /// Name and nanoseconds.
    pub bars: Vec<(String, f64)>,
}

/// The drawing: for each group one bar per engine, FirnDB's in another colour.
pub fn svg(groups: &[Group]) -> String {
    let (low, high) = decades(groups);
    let place = |nanos: f64| LEFT + (nanos.log10() - low) / (high - low) * WIDTH;
    let mut body = String::new();
    let mut y = 30.0;
    for Group { title, bars } in groups {
        let _ =
            writeln!(body, r#"<text x="8" y="{:.0}" font-weight="bold">{title}</text>"#, y + 11.0);
        for (name, nanos) in bars {
            bar(&mut body, name, y, place(*nanos), *nanos);
            y += BAR;
        }
        y += GAP;
    }
    let mut axis = String::new();
    for decade in low as i32..=high as i32 {
        let nanos = 10f64.powi(decade);
        let x = place(nanos);
        let label = time(nanos).replace(".00", "").replace(".0", "");
        let _ = writeln!(
            axis,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"22\" y2=\"{y:.0}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"16\" text-anchor=\"middle\">{label}</text>"
        );
    }
    let (width, height) = (LEFT + WIDTH + 80.0, y + 8.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{axis}{body}</svg>\n"
    )
}

fn bar(out: &mut String, name: &str, y: f64, end: f64, nanos: f64) {
    let color = match name {
        "floor" => "#bbbbbb",
        name if is_ours(name) => "#1f6fb4",
        _ => "#d98b3a",
    };
    let (text, height, width) = (y + 11.0, BAR - 2.0, (end - LEFT).max(1.0));
    let (name_end, value) = (LEFT - 6.0, end.max(LEFT) + 4.0);
    let _ = writeln!(
        out,
        "<text x=\"{name_end:.0}\" y=\"{text:.0}\" text-anchor=\"end\">{name}</text>\
         <rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{height}\" \
         fill=\"{color}\"/>\
         <text x=\"{value:.1}\" y=\"{text:.0}\">{}</text>",
        time(nanos)
    );
}

/// The powers of ten around all times. Times of zero, from a coarse CPU clock, are left out.
fn decades(groups: &[Group]) -> (f64, f64) {
    let logs = groups.iter().flat_map(|group| &group.bars).map(|(_, nanos)| nanos.log10());
    let (low, high) = logs
        .filter(|log| log.is_finite())
        .fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
    if low > high { (0.0, 9.0) } else { (low.floor(), high.ceil().max(low.floor() + 1.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_times_have_a_bar() {
        let bars = [0.0, f64::NAN, 120.0].map(|nanos| ("firndb".to_string(), nanos));
        let svg = svg(&[Group { title: "present".into(), bars: bars.into() }]);
        assert_eq!(svg.matches("#1f6fb4").count(), 3);
        assert_eq!(svg.matches("#ddd").count(), 2, "lines at 100 ns and 1 us");
        assert!(!svg.contains("\"NaN") && !svg.contains("inf"), "{svg}");
    }
}
