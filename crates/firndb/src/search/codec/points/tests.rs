//! Checks windows over points against one document at a time, with every instruction set, and that
//! corrupt bytes are harmless.

use crate::bytes::int::Encoder;
use crate::bytes::testing::print_nanoseconds;
use crate::search::codec::column::MISSING;
use crate::search::codec::points::build::encode;
use crate::search::codec::points::*;
use crate::search::format::limits::MAX_SPAN;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::Rng;

/// Random coordinates of two fields, most of them in a few clusters. If `lacking`, some documents
/// lack one value or both.
fn fields(rng: &mut Rng, documents: usize, distinct: [u32; 2], lacking: bool) -> [Vec<u32>; 2] {
    let heaps: Vec<[u32; 2]> =
        (0..3).map(|_| distinct.map(|d| rng.below(d as usize) as u32)).collect();
    let mut ords = [Vec::new(), Vec::new()];
    for _ in 0..documents {
        let heap = *rng.pick(&heaps);
        for (field, ords) in ords.iter_mut().enumerate() {
            let d = distinct[field];
            ords.push(match rng.below(8) {
                0 if lacking => MISSING,
                1 => rng.below(d as usize) as u32,
                2 => heap[field],
                _ => (heap[field] + rng.below(1 + d as usize / 20) as u32) % d,
            });
        }
    }
    ords
}

fn range(rng: &mut Rng, distinct: u32) -> (u32, u32) {
    let (a, b) = (rng.below(distinct as usize + 1) as u32, rng.below(distinct as usize + 1) as u32);
    match rng.below(6) {
        0 => EVERYTHING,
        1 => (0, distinct),
        _ => (a.min(b), a.max(b)),
    }
}

#[test]
fn windows_match_brute_force() {
    let seed = 0x90_1475;
    println!("seed {seed:#x}");
    let mut rng = Rng(seed);
    for round in 0..80 {
        let documents = [0, 1, 63, 64, 65, 4095, 4096, 4097, 9000, 20_000][round % 10];
        let of = [CoordinateKind::Ordinals, CoordinateKind::Values][round / 10 % 2];
        let most = [3, 500, 60_000, (MAX_SPAN - 1) as usize][(round + round / 20) % 4];
        let most = if of == CoordinateKind::Ordinals { most.min(1 << 25) } else { most };
        let distinct = [0, 0].map(|_| 1 + rng.below(most) as u32);
        let ords = fields(&mut rng, documents, distinct, (round + round / 20) % 2 == 1);
        let bytes = encode([&ords[0], &ords[1]], distinct, of);
        let points = Points::new(&bytes, documents as u32, of).unwrap();
        let at = |doc: usize| [0, 1].map(|f| ords[f][doc].min(distinct[f]));
        let mut seen = vec![false; documents];
        points.each_entry(|doc, ords| {
            assert!(ords == at(doc as usize) && ords != distinct, "document {doc}");
            assert!(!std::mem::replace(&mut seen[doc as usize], true), "{doc} comes twice");
        });
        assert!((0..documents).all(|doc| seen[doc] == (at(doc) != distinct)));
        points.verify(documents as u32, distinct).unwrap();
        for _ in 0..20 {
            let window = [0, 1].map(|f| range(&mut rng, distinct[f]));
            let inside = |doc: &usize| {
                let at = at(*doc);
                let within = |f: usize| (window[f].0..window[f].1).contains(&at[f]);
                at != distinct && within(0) && within(1)
            };
            let expected: Vec<usize> = (0..documents).filter(inside).collect();
            with_each_version(|version| {
                let context =
                    format!("{version}, round {round}, {window:?} of {distinct:?} {of:?}");
                assert_eq!(points.count(window), expected.len() as u64, "{context}");
                let mut bits = vec![0; documents.div_ceil(64)];
                points.add(window, &mut bits);
                let has = |doc: &usize| bits[doc / 64] >> (doc % 64) & 1 == 1;
                let found: Vec<usize> = (0..64 * bits.len()).filter(has).collect();
                assert_eq!(found, expected, "{context}");
            });
        }
    }
}

#[test]
fn encoding_matches_the_documented_format() {
    let ords: [&[u32]; 2] = [&[0, 1, MISSING, 1], &[2, 0, MISSING, MISSING]];
    let bytes = encode(ords, [2, 3], CoordinateKind::Ordinals);
    let mut expected = Encoder::default();
    expected.u64(3);
    // The group: the first field from 0 to 1, the second from 0 to 3, which means missing.
    [0, 1, 0, 3].into_iter().for_each(|bound| expected.u32(bound));
    expected.u64(0);
    expected.u32(1 << 26);
    expected.u32(2 << 26);
    expected.0.extend([0b110, 0, 0, 0, 0, 0, 0, 0]);
    expected.0.extend([0b11_00_10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Documents 0, 1 and 3 without low bits: bits 0, 1 + 1 and 3 + 2.
    expected.u64(0b10_0101);
    expected.u64(0);
    expected.0.extend([0; 64]);
    assert_eq!(bytes, expected.0);
    let heads = 8 + ENTRY..8 + ENTRY + 8;
    let mut of_values = Encoder::default();
    [1 << 27, 2 << 27].into_iter().for_each(|head| of_values.u32(head));
    let values = encode(ords, [2, 3], CoordinateKind::Values);
    assert_eq!(values[heads.clone()], of_values.0);
    assert_eq!(
        (&values[..heads.start], &values[heads.end..]),
        (&bytes[..heads.start], &bytes[heads.end..])
    );
    assert!(
        Points::new(&bytes, 2, CoordinateKind::Ordinals).is_err(),
        "more points than documents"
    );
    assert!(
        Points::new(&bytes[..100], 4, CoordinateKind::Ordinals).is_err(),
        "too short for its end"
    );
}

#[test]
fn corrupt_points_return_some_documents() {
    let mut rng = Rng(0xBAD_90147);
    let distinct = [300, 300];
    let ords = fields(&mut rng, 5000, distinct, true);
    for round in 0..300 {
        let of = [CoordinateKind::Ordinals, CoordinateKind::Values][round % 2];
        let bytes = encode([&ords[0], &ords[1]], distinct, of);
        let mut forged = bytes.clone();
        let head = 8 + 2 * ENTRY + 8 * 79;
        for _ in 0..1 + rng.below(20) {
            let places = [head, forged.len()][rng.below(2)];
            let at = 8 + rng.below(places - 8);
            forged[at] = rng.next() as u8;
        }
        let cut = rng.below(2) * rng.below(forged.len() - head - END);
        forged.truncate(forged.len() - cut);
        let points = Points::new(&forged, 5000, of).unwrap();
        let window = [0, 1].map(|f| range(&mut rng, distinct[f]));
        with_each_version(|_| {
            let mut bits = vec![0; 20];
            points.add(window, &mut bits);
            points.add([window[0], (window[1].1, window[1].0)], &mut bits);
            points.each_entry(|_, _| {});
            // No more documents than the leaves have room for.
            assert!(points.count(window) <= 79 * 64);
        });
    }
}

#[test]
#[ignore = "prints times"]
fn times_of_windows() {
    let mut rng = Rng(9);
    let (documents, distinct) = (400_000, [50_000, 50_000]);
    let ords = fields(&mut rng, documents, distinct, false);
    let bytes = encode([&ords[0], &ords[1]], distinct, CoordinateKind::Ordinals);
    println!("{} bytes of {documents} documents", bytes.len());
    let points = Points::new(&bytes, documents as u32, CoordinateKind::Ordinals).unwrap();
    for side in [500, 5_000, 50_000] {
        let windows: Vec<Window> = (0..40)
            .map(|_| [0, 1].map(|f| ords[f][rng.below(documents)].saturating_sub(side / 2)))
            .map(|at| at.map(|at| (at, at + side)))
            .collect();
        let found: u64 = windows.iter().map(|window| points.count(*window)).sum();
        println!("{found} documents in {} windows", windows.len());
        print_nanoseconds(&format!("points, side {side}: count, per window"), || {
            (windows.len(), windows.iter().map(|window| points.count(*window)).sum())
        });
        let mut bits = vec![0; documents / 64 + 1];
        print_nanoseconds(&format!("points, side {side}: add, per document"), || {
            windows.iter().for_each(|window| points.add(*window, &mut bits));
            (found as usize, bits[77])
        });
        let mut docs = Vec::new();
        print_nanoseconds(&format!("points, side {side}: next, per document"), || {
            let mut sum = 0;
            for window in &windows {
                let mut group = 0;
                while points.next(*window, &mut group, &mut docs) {
                    sum += u64::from(docs[0]);
                    docs.clear();
                }
            }
            (found as usize, sum)
        });
    }
    print_nanoseconds("points: each entry", || {
        let mut sum = 0;
        points.each_entry(|doc, at| sum += u64::from(doc ^ at[0] ^ at[1]));
        (documents, sum)
    });
    print_nanoseconds("points: encode, per document", || {
        let bytes = encode([&ords[0], &ords[1]], distinct, CoordinateKind::Ordinals);
        (documents, bytes.len() as u64)
    });
}
