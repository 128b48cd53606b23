//! What comes from pipes.

use super::build::gzip;
use crate::Place;
use std::io::Write;
use std::time::Duration;

#[test]
fn inputs_are_told_by_more_than_their_first_byte() {
    let place = Place::new();
    let text = b"id\tn\n1\t2\n";
    for (name, input) in [("plain", &text[..]), ("packed", &gzip(text))] {
        let mut child = place.start(&[], &format!("table build -i - --key id -o {name}"));
        let stdin = child.stdin.as_mut().unwrap();
        for part in [&input[..1], &input[1..3], &input[3..]] {
            stdin.write_all(part).unwrap();
            stdin.flush().unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        Place::ended(child, b"").ok();
        assert_eq!(place.firn(&format!("table get {name} 1")).ok().out, "2\n");
    }
    // A frame that is to be skipped stands before the data.
    let skipped = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b' ', b'1'];
    let packed = zstd::encode_all(&b"b 2\n"[..], 1).unwrap();
    place.write("a.txt", [&skipped[..], &packed[..]].concat());
    place.firn("table build -i a.txt -o skipped").ok();
    assert_eq!(place.firn("table scan skipped").ok().out, "b\t2\n");
}
