//! The order in which torch lists keywords in messages: that of a hash table of the C++ standard library, as GCC
//! implements it. New keywords come first, unless their bucket is in use.

/// The buckets of a table of up to 13 keywords.
const BUCKETS: u64 = 13;

/// Keywords in the order of the table. A keyword ends at `=`.
pub fn in_hash_order(keywords: Vec<String>) -> Vec<String> {
    let mut listed: Vec<(u64, String)> = Vec::new();
    for keyword in keywords {
        let bucket = hash(keyword.split('=').next().unwrap_or_default().as_bytes()) % BUCKETS;
        let place = listed.iter().position(|(other, _)| *other == bucket).unwrap_or(0);
        listed.insert(place, (bucket, keyword));
    }
    listed.into_iter().map(|(_, keyword)| keyword).collect()
}

/// MurmurHash64A with the seed of `std::hash`.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let mixed = |value: u64| value ^ (value >> 47);
    let mut hash = 0xc70f_6907 ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for block in bytes.chunks(8) {
        let word = block.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
        let word = if block.len() == 8 { mixed(word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR) } else { word };
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    mixed(mixed(hash).wrapping_mul(FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_listed_as_by_torch() {
        let order = |names: &[&str]| in_hash_order(names.iter().map(ToString::to_string).collect()).join(" ");
        assert_eq!(order(&["stable=1", "dim=2", "descending=3"]), "dim=2 descending=3 stable=1");
        assert_eq!(order(&["beta", "alpha"]), "alpha beta");
        assert_eq!(order(&["alpha", "out", "foo", "bar"]), "bar foo out alpha");
    }
}
