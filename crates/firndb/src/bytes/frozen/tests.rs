//! The bytes of frozen files, and every single change to a small one.

use super::*;

impl Append for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

fn file() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = FrozenWriter::new(&mut bytes, Kind::PartitionSet).unwrap();
    w.section(7, b"seven").unwrap();
    w.section(3, b"").unwrap();
    w.finish().unwrap();
    bytes
}

fn read(bytes: Vec<u8>) -> Result<(Vec<u8>, Vec<u8>)> {
    let f = Frozen::open(Map::from_vec(bytes), Path::new("f"), Kind::PartitionSet)?;
    let get = |id| f.section(f.find(id).ok_or_else(|| Error::corrupt("gone"))?).map(<[u8]>::to_vec);
    let both = (get(7)?, get(3)?);
    f.verify()?;
    Ok(both)
}

#[test]
fn bytes_match_the_specification() {
    let bytes = file();
    assert_eq!(bytes.len(), 64 + 64 + 2 * 32 + 64);
    assert_eq!(&bytes[..16], b"FIRNDB1\n\x02\0\0\0\x01\0\0\0");
    assert_eq!(&bytes[64..70], b"seven\0");
    // The directory: id 3 (empty, at 128), id 7 (5 bytes at 64).
    assert_eq!(u32_at(&bytes, 128), 3);
    assert_eq!((u64_at(&bytes, 136), u64_at(&bytes, 144)), (128, 0));
    assert_eq!(u64_at(&bytes, 152), 0x2D06_8005_38D3_94C2, "XXH3-64 of nothing");
    assert_eq!((u32_at(&bytes, 160), u64_at(&bytes, 168), u64_at(&bytes, 176)), (7, 64, 5));
    assert_eq!(u64_at(&bytes, 192), 128, "footer: offset of the directory");
    assert_eq!(u64_at(&bytes, 192 + 24), 256, "footer: length of the file");
    assert_eq!(read(bytes).unwrap(), (b"seven".to_vec(), Vec::new()));
}

#[test]
fn files_are_appended_in_whole_pieces() {
    #[derive(Default)]
    struct Lengths(Vec<usize>);
    impl Append for Lengths {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            self.0.push(bytes.len());
            Ok(())
        }
        fn sync(&mut self) -> Result<()> {
            Ok(())
        }
    }
    let mut out = Lengths::default();
    let mut w = FrozenWriter::new(&mut out, Kind::PartitionSet).unwrap();
    w.begin(1, true).unwrap();
    for len in [1, PIECE - 200, 500, 3 * PIECE, 0, PIECE - 1] {
        w.write(&vec![7; len]).unwrap();
    }
    w.end();
    w.finish().unwrap();
    assert_eq!(out.0.len(), 6);
    assert!(out.0[..5].iter().all(|&len| len == PIECE) && out.0[5] < PIECE, "{:?}", out.0);
}

#[test]
fn every_changed_byte_and_every_truncation_is_detected() {
    let good = file();
    for at in 0..good.len() {
        for change in [0xFF, 0x01, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= change;
            assert!(read(bad).is_err(), "byte {at}");
        }
    }
    for len in 0..good.len() {
        assert!(read(good[..len].to_vec()).is_err(), "cut to {len}");
    }
}

#[test]
fn errors_name_another_kind_and_a_newer_version() {
    let open =
        |bytes| Frozen::open(Map::from_vec(bytes), Path::new("f"), Kind::Partition).err().unwrap();
    assert_eq!(open(file()).kind(), ErrorKind::InvalidArgument);
    let mut newer = file();
    let at = newer.len() - EDGE;
    newer[12] = 9;
    newer[at + 16] = 9;
    newer[8] = 1;
    newer[at + 12] = 1;
    let sum = xxh3_64(&newer[at..at + 48]).to_le_bytes();
    newer[at + 48..at + 56].copy_from_slice(&sum);
    assert_eq!(open(newer).kind(), ErrorKind::UnsupportedVersion);
}
