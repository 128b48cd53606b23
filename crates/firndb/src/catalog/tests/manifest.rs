//! Tests of the text of manifests: golden, and damaged in every byte.

use crate::ErrorKind;
use crate::catalog::format::{decode, encode, file_number, version_number};
use crate::catalog::{Version, VersionFile, VersionKind};
use xxhash_rust::xxh3::xxh3_64;

fn sample() -> Version {
    let file = |name: &str, bytes, digit: &str, since| VersionFile {
        name: name.to_string(),
        bytes,
        content: digit.repeat(32),
        blake3: digit.repeat(64),
        since,
    };
    Version {
        name: "flights".to_string(),
        number: 7,
        id: "0123456789abcdef".repeat(2),
        parent: Some(6),
        parent_id: None,
        restores: None,
        time: 1_785_000_000_123_456,
        kind: VersionKind::Collection,
        schema: Some("[fields]\norigin = 'string full'\n".to_string()),
        statistics: [("documents".to_string(), 12), ("partitions".to_string(), 2)].into(),
        labels: [("feed".to_string(), "\u{e9}\u{1f600} \"x\"\\\n".to_string())].into(),
        files: vec![
            file("a.0123.part.firn", 1234, "a", 7),
            file("set-00000000000000000009.firn", 99, "b", 3),
        ],
    }
}

const GOLDEN: &str = include_str!("../../../tests/golden/v1/manifest.json");

#[test]
fn format_1_is_stable() {
    assert_eq!(encode(&sample()), GOLDEN);
    assert_eq!(decode(GOLDEN.as_bytes(), "flights", 7).unwrap(), sample());
    let child = Version { parent_id: Some("fe".repeat(16)), ..sample() };
    assert_eq!(decode(encode(&child).as_bytes(), "flights", 7).unwrap(), child);
    let bare = Version { parent: None, schema: None, files: Vec::new(), ..sample() };
    assert_eq!(decode(encode(&bare).as_bytes(), "flights", 7).unwrap(), bare);
}

#[test]
fn damaged_or_truncated_manifests_are_corrupt() {
    let text = encode(&sample()).into_bytes();
    for at in 0..text.len() {
        let cut = decode(&text[..at], "flights", 7).unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::Corrupt, "cut to {at} bytes");
        for bit in [1, 0x20, 0x80] {
            let mut damaged = text.clone();
            damaged[at] ^= bit;
            let damaged = decode(&damaged, "flights", 7).unwrap_err();
            assert_eq!(damaged.kind(), ErrorKind::Corrupt, "byte {at}: {damaged}");
        }
    }
    for (name, number) in [("flights", 8), ("trains", 7)] {
        assert_eq!(decode(&text, name, number).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// The sample with a replacement in its text and a matching checksum.
fn forged(from: &str, to: &str) -> Vec<u8> {
    let text = encode(&sample());
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    let (body, _) = text.rsplit_once(",\n\"checksum\": \"").unwrap();
    format!("{body},\n\"checksum\": \"{:016x}\"\n}}\n", xxh3_64(body.as_bytes())).into_bytes()
}

#[test]
fn newer_formats_are_unsupported_and_forged_ones_corrupt() {
    let newer = decode(&forged("\"format\": 1", "\"format\": 2"), "flights", 7).unwrap_err();
    assert_eq!(newer.kind(), ErrorKind::UnsupportedVersion);
    assert!(newer.message().contains("newer release"), "{newer}");
    for (from, to) in [
        ("a.0123.part.firn", "../../etc/passwd"),
        ("a.0123.part.firn", ".hidden"),
        ("a.0123.part.firn", "set-00000000000000000009.firn"),
        ("\"since\": 7", "\"since\": 8"),
        ("\"since\": 7", "\"since\": 0"),
        ("\"bytes\": 1234", "\"bytes\": -1"),
        ("\"bytes\": 1234", "\"bytes\": 1e999"),
        ("collection", "relation"),
        ("\"parent\": 6", "\"parent\": \"six\""),
        ("2026", "20x6"),
        (&"a".repeat(64), &"A".repeat(64)),
        ("\"labels\"", "\"libels\""),
        ("\"documents\": 12", "\"documents\": []"),
        ("[fields]", &"[".repeat(100_000)),
    ] {
        let outcome = decode(&forged(from, to), "flights", 7);
        // The catalog does not interpret the schema.
        let harmless = from == "[fields]";
        assert!(outcome.map_or_else(|e| e.kind() == ErrorKind::Corrupt, |_| harmless), "{from}");
    }
    let nested = forged("\"labels\": {", &format!("\"labels\": {}{{", "[".repeat(100_000)));
    assert_eq!(decode(&nested, "flights", 7).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn other_object_names_are_ignored() {
    assert_eq!(version_number("00000000000000000012.json"), Some(12));
    for name in ["12.json", "00000000000000000012", "+0000000000000000012.json", ".x.tmp"] {
        assert_eq!(version_number(name), None);
    }
    assert_eq!(file_number(&format!("{:020}-{}", 3, "0f".repeat(32))), Some(3));
    assert_eq!(file_number(&format!("{:020}-{}", 3, "0F".repeat(32))), None);
    assert_eq!(file_number("note.txt"), None);
}
