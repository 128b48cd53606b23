//! Lists of various lengths, read whole and in part, and corrupt lists.

use crate::bytes::testing::print_nanoseconds;
use crate::search::codec::slices::*;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::Rng;

/// Random lists of very different lengths, some of them of consecutive documents.
fn lists(rng: &mut Rng, documents: usize) -> Vec<Vec<u32>> {
    let keys = 1 + rng.below(12);
    let list = |rng: &mut Rng| {
        let share = [1, 3, 40, 700, documents][rng.below(5)];
        let (from, to) = (rng.below(documents), rng.below(documents + 1));
        (from..to.max(from + 1)).filter(|_| rng.below(share) == 0).map(|d| d as u32).collect()
    };
    (0..keys).map(|_| list(rng)).collect()
}

fn bytes(documents: usize, bits: u8, lists: &[Vec<u32>]) -> (Vec<u8>, Vec<u8>) {
    let mut w = SlicesWriter::new(documents, bits);
    lists.iter().for_each(|docs| w.push(docs));
    w.finish()
}

fn read(slices: &Slices, mut span: Span, size: usize) -> Vec<u32> {
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while slices.next(&mut span, size, &mut block) {
        assert!(block.len() <= BLOCK, "{} documents at a time", block.len());
        all.extend_from_slice(&block);
    }
    all
}

#[test]
fn lists_round_trip() {
    let seed = 0x511_CE5;
    println!("seed {seed:#x}");
    let mut rng = Rng(seed);
    for round in 0..150 {
        let documents = [1, 2, 63, 64, 65, 1000, 5000, 70_000][rng.below(8)];
        let mut lists = lists(&mut rng, documents);
        lists.retain(|docs| !docs.is_empty());
        lists.push(vec![documents as u32 - 1]);
        let bits = if round % 3 == 0 { width(documents as u64 - 1) } else { ELIAS_FANO };
        let (bytes, places) = bytes(documents, bits, &lists);
        assert_eq!(places.is_empty(), bits != ELIAS_FANO);
        let entries = lists.iter().map(Vec::len).sum();
        let head = (documents as u32, bits);
        let slices = Slices::new((&bytes, &places), head, lists.len(), entries).unwrap();
        let first = rng.below(lists.len());
        let last = first + rng.below(lists.len() - first + 1);
        let before: usize = lists[..first].iter().map(Vec::len).sum();
        let wanted: Vec<u32> = lists[first..last].concat();
        let window = rng.below(documents) as u32;
        let window = (window, window + rng.below(documents) as u32);
        let words: Vec<u64> = (0..documents.div_ceil(64)).map(|_| rng.next()).collect();
        let has = |doc: u32, words: &[u64]| words[doc as usize / 64] >> (doc % 64) & 1;
        with_each_version(|version| {
            let at = format!("{version}, round {round}, {bits} bits");
            let span = slices.span(first, before, before + wanted.len());
            for size in [1, 64, 100, BLOCK] {
                assert!(read(&slices, span, size) == wanted, "{at}, {size} at a time");
            }
            let mut set = words.clone();
            slices.set(span, &mut set);
            assert!(wanted.iter().all(|&doc| has(doc, &set) == 1), "{at}");
            let count = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
            let mut distinct: Vec<u32> = wanted.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let new = distinct.iter().filter(|&&doc| has(doc, &words) == 0).count();
            assert_eq!(count(&set) - count(&words), new as u32, "{at}");
            let found: u64 = wanted.iter().map(|&doc| has(doc, &words)).sum();
            assert_eq!(slices.count(span, &words), found, "{at}");
            if last == first + 1 {
                let part = read(&slices, slices.narrow(span, window), 100);
                let inside = |doc: &&u32| (window.0..window.1).contains(doc);
                assert!(part.iter().filter(inside).eq(wanted.iter().filter(inside)), "{at}");
                let beside = part.iter().filter(|doc| !inside(doc)).count();
                let low = Layout::new(documents, wanted.len()).low;
                assert!(beside <= 2 << low, "{at}: {beside} beside the window");
            }
        });
    }
}

#[test]
fn lists_are_divided_if_that_saves_an_eighth() {
    let of = |documents, keys, per_key| bits_of(documents, [per_key].repeat(keys).into_iter());
    assert_eq!(of(1_000_000, 1000, 1000), ELIAS_FANO);
    assert_eq!(of(1_000_000, 100_000, 10), 20, "short lists");
    assert_eq!(of(4096, 10, 400), 12, "a small partition");
    assert_eq!(of(100_000, 10, 0), 17, "nothing");
    assert_eq!(of(1 << 26, 1, 1 << 25), ELIAS_FANO);
}

#[test]
fn encoding_matches_the_documented_format() {
    // Ten documents. Three in a list: one low bit each, five buckets. Two: two low bits, three
    // buckets.
    let (lists, places) = bytes(10, ELIAS_FANO, &[vec![1, 2, 9], vec![4, 5]]);
    let first = [3, 0, 0, 0, 0b101, 0b0100_0101];
    let second = [2, 0, 0, 0, 0b0100, 0b0_0110];
    assert_eq!(lists, [&first[..], &second, &[0; END]].concat());
    assert_eq!(Monotonic::new(&places, 3).unwrap().decode(), [0, 6, 12]);
}

#[test]
fn reading_corrupt_lists_terminates() {
    let mut rng = Rng(7);
    let lists: Vec<Vec<u32>> = (0..3).map(|_| (0..5000).step_by(9).collect()).collect();
    let (bytes, places) = bytes(5000, ELIAS_FANO, &lists);
    let entries = 3 * lists[0].len();
    let head = (5000, ELIAS_FANO);
    assert!(Slices::new((&bytes[8..], &places), head, 3, entries).is_err());
    assert!(Slices::new((&bytes, &places), head, 2, entries).is_err());
    assert!(Slices::new((&bytes, &places[8..]), head, 3, entries).is_err());
    assert!(Slices::new((&bytes, &places), (5000, 13), 3, entries).is_err());
    let (mut some, mut short) = (0, 0);
    for round in 0..800u64 {
        let (mut bytes, mut places) = (bytes.clone(), places.clone());
        let mut any = |byte: &mut u8| *byte = rng.next() as u8 & rng.next() as u8;
        // The first three kinds keep the lengths, so that lists have fewer bits set than claimed.
        let each = (bytes.len() - END) / 3;
        let lows = Layout::new(5000, entries / 3).lows;
        let highs = (0..3).map(|list| list * each + HEAD + lows..(list + 1) * each);
        let lists = (0..3).map(|list| list * each + HEAD..(list + 1) * each);
        match round % 4 {
            0 => highs.for_each(|highs| bytes[highs].fill(0)),
            1 => highs.for_each(|highs| bytes[highs].iter_mut().for_each(&mut any)),
            2 => lists.for_each(|list| bytes[list].iter_mut().for_each(&mut any)),
            _ => {
                let place = |i: u64| i * each as u64 + round % 97 * i;
                places = monotonic::encode([0, 1, 2, 3].map(place).into_iter());
            }
        }
        let places = Monotonic::trusted(&places, 4);
        let form = Form::Divided { lists: &bytes, places, entries };
        let slices = Slices { documents: 5000, form };
        let mut number = |most| [rng.below(most), usize::MAX - rng.below(most)][rng.below(4) / 3];
        let (key, first) = (number(4), number(entries));
        let span = slices.span(key, first, first.saturating_add(number(1000)));
        let all = read(&slices, span, 64);
        assert!(all.len() <= span.len(), "{} documents of {}", all.len(), span.len());
        some += usize::from(!all.is_empty());
        short += usize::from(!all.is_empty() && all.len() < span.len());
        let mut bits = vec![0; 5000 / 64 + 1];
        with_each_version(|_| {
            assert!(read(&slices, span, 64) == all);
            let narrow = slices.narrow(span, (70, 4000));
            assert!(read(&slices, narrow, 64).len() <= span.len());
            slices.set(span, &mut bits);
        });
    }
    assert!(some > 50 && short > 20, "{some} rounds gave documents, {short} fewer than they say");
}

#[test]
#[ignore = "prints times"]
fn times_of_divided_lists() {
    let documents = 4_000_000;
    for share in [4, 40, 1000] {
        let mut rng = Rng(9);
        let keys = (share / 4).clamp(1, 20);
        let list = |rng: &mut Rng| -> Vec<u32> {
            let mut doc = 0;
            let mut docs = Vec::new();
            loop {
                doc += 1 + rng.below(2 * share - 1);
                if doc >= documents {
                    return docs;
                }
                docs.push(doc as u32);
            }
        };
        let lists: Vec<Vec<u32>> = (0..keys).map(|_| list(&mut rng)).collect();
        let (bytes, places) = bytes(documents, ELIAS_FANO, &lists);
        let entries = lists.iter().map(Vec::len).sum();
        let head = (documents as u32, ELIAS_FANO);
        let slices = Slices::new((&bytes, &places), head, lists.len(), entries).unwrap();
        println!("{} bytes of {entries} entries", bytes.len());
        let span = slices.span(0, 0, entries);
        let mut block = Vec::with_capacity(BLOCK);
        for size in [BLOCK, 64] {
            print_nanoseconds(&format!("slices, 1 of {share}: next {size}, per entry"), || {
                let (mut span, mut sum) = (span, 0);
                while slices.next(&mut span, size, &mut block) {
                    sum += u64::from(block[0]) + block.len() as u64;
                }
                (entries, sum)
            });
        }
        let mut bits = vec![0; documents / 64 + 1];
        print_nanoseconds(&format!("slices, 1 of {share}: set, per entry"), || {
            slices.set(span, &mut bits);
            (entries, bits[77])
        });
        print_nanoseconds(&format!("slices, 1 of {share}: count, per entry"), || {
            (entries, slices.count(span, &bits))
        });
        let one = slices.span(0, 0, lists[0].len());
        let windows: Vec<u32> = (0..200).map(|_| rng.below(documents - 70_000) as u32).collect();
        print_nanoseconds(&format!("slices, 1 of {share}: narrow, per window"), || {
            let narrow = |&start| slices.narrow(one, (start, start + 65_536)).len() as u64;
            (windows.len(), windows.iter().map(narrow).sum())
        });
        print_nanoseconds(&format!("slices, 1 of {share}: write, per entry"), || {
            (entries, self::bytes(documents, ELIAS_FANO, &lists).0.len() as u64)
        });
    }
}
