//! Archives of torch are read, written archives have torch's layout, and malformed archives give errors.

use super::*;
use crate::Error;
use crate::pickle::tests::{Random, fixture};

#[test]
fn reads_what_torch_wrote() {
    let archive = Archive::open(fixture("linear.pt")).unwrap();
    assert_eq!(archive.folder(), "linear");
    assert_eq!(archive.read("version").unwrap(), b"3\n");
    assert_eq!(archive.read("byteorder").unwrap(), b"little");
    assert_eq!(archive.read("data/0").unwrap().len(), 24);
    assert_eq!(archive.record("data/0").unwrap().offset % 64, 0);
    assert!(matches!(archive.read("data/9"), Err(Error::NoRecord(name)) if name == "data/9"));
}

#[test]
fn writes_byte_for_byte_what_torch_writes() {
    let original = fixture("linear.pt");
    let archive = Archive::open(original.clone()).unwrap();
    let mut names: Vec<&str> = archive.names().collect();
    names.sort_by_key(|name| archive.record(name).unwrap().offset);
    let mut writer = Writer::new(Vec::new(), archive.folder());
    for name in names {
        writer.record(name, &archive.read(name).unwrap()).unwrap();
    }
    assert!(writer.finish().unwrap() == original);
}

#[test]
fn pieces_make_the_same_record_and_misuse_is_an_error() {
    let mut writer = Writer::new(Vec::new(), "a");
    writer.begin("x", 4).unwrap();
    writer.data(b"ab").unwrap();
    assert!(writer.begin("y", 1).is_err());
    writer.data(b"cd").unwrap();
    assert!(writer.data(b"e").is_err());
    writer.begin("z", 0).unwrap_err();
}

#[test]
fn large_archives_use_64_bits() {
    // A sparse sink: the data are counted and discarded, and only headers are kept.
    struct Headers(Vec<u8>, u64);
    impl std::io::Write for Headers {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1 += bytes.len() as u64;
            if bytes.len() < 1 << 20 {
                self.0.extend_from_slice(bytes);
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Headers(Vec::new(), 0), "a");
    let block = vec![0; 1 << 26];
    writer.begin("big", 5 << 30).unwrap();
    for _ in 0..80 {
        writer.data(&block).unwrap();
    }
    writer.end().unwrap();
    writer.record("after", b"x").unwrap();
    let Headers(headers, total) = writer.finish().unwrap();
    // Put the headers at the end of an otherwise empty file of the true size.
    let directory = headers.windows(4).position(|window| window == CENTRAL_HEADER.to_le_bytes()).unwrap();
    let tail = headers[directory..].to_vec();
    struct Sparse(u64, Vec<u8>, Vec<u8>);
    impl crate::Source for Sparse {
        fn size(&self) -> u64 {
            self.0
        }
        fn read_at(&self, offset: u64, into: &mut [u8]) -> crate::Result<()> {
            let tail = self.0 - self.2.len() as u64;
            for (place, byte) in into.iter_mut().enumerate() {
                let at = offset + place as u64;
                *byte = if at >= tail {
                    self.2[(at - tail) as usize]
                } else if at < 64 {
                    self.1[at as usize]
                } else if at >= (5 << 30) + 64 + 24 {
                    self.1[(at - (5 << 30)) as usize]
                } else {
                    0
                };
            }
            Ok(())
        }
    }
    let archive = Archive::open(Sparse(total, headers, tail)).unwrap();
    assert_eq!(archive.record("big").unwrap().size, 5 << 30);
    assert_eq!(archive.record("big").unwrap().offset, 64);
    assert_eq!(archive.read("after").unwrap(), b"x");
}

#[test]
fn truncated_anywhere_is_an_error() {
    let whole = fixture("linear.pt");
    for length in 0..whole.len() {
        let error = Archive::open(whole[..length].to_vec()).err();
        match error {
            Some(Error::NotAnArchive) => assert!(length < 22),
            Some(Error::NoCentralDirectory) => {}
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn mutations_give_a_value_or_an_error() {
    let whole = fixture("linear.pt");
    let mut random = Random(2);
    for _ in 0..100_000 {
        let mut mutated = whole.clone();
        for _ in 0..=random.below(3) {
            // Half of the changes hit the directory at the end.
            let place =
                if random.below(2) == 0 { random.below(whole.len()) } else { whole.len() - 1 - random.below(600) };
            mutated[place] = random.below(256) as u8;
        }
        if let Ok(archive) = Archive::open(mutated) {
            for name in archive.names() {
                let _ = archive.read(name);
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_a_storage_is_noticed() {
    let mut whole = fixture("linear.pt");
    let offset = Archive::open(whole.clone()).unwrap().record("data/0").unwrap().offset as usize;
    whole[offset + 3] ^= 1;
    let archive = Archive::open(whole).unwrap();
    assert!(matches!(archive.read("data/0"), Err(Error::BadChecksum(_))));
    let mut into = [0; 24];
    assert!(matches!(archive.read_into("data/0", &mut into), Err(Error::BadChecksum(_))));
}

#[test]
fn the_old_format() {
    use crate::legacy_format;
    use crate::pickle::{Limits, Policy};
    let bytes = fixture("legacy.pt");
    assert!(legacy_format::read(&fixture("linear.pt"), &Policy::default(), Limits::default()).is_err());
    let read = legacy_format::read(&bytes, &Policy::default(), Limits::default()).unwrap();
    assert_eq!(read.keys.len(), 2);
    assert!(read.little_endian);
    let left = bytes.len() - read.storages;
    assert_eq!(left, 8 + 6 * 4 + 8 + 2 * 4);
    for length in 0..read.storages {
        assert!(legacy_format::read(&bytes[..length], &Policy::default(), Limits::default()).is_err());
    }
}
