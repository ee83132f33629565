//! Valid pickles give their steps; malicious ones give an error.

use super::*;
use crate::Error;

fn steps(bytes: &[u8]) -> Vec<Step> {
    let outcome = interpret(bytes, &Policy::default(), Limits::default());
    outcome.unwrap_or_else(|error| panic!("{error}: {bytes:?}")).steps
}

fn refusal(bytes: &[u8]) -> String {
    interpret(bytes, &Policy::default(), Limits::default()).map(|outcome| outcome.steps).unwrap_err().to_string()
}

#[test]
fn plain_values() {
    assert_eq!(steps(b"\x80\x02N."), [Step::None]);
    assert_eq!(steps(b"\x80\x02\x88."), [Step::Bool(true)]);
    assert_eq!(steps(b"I01\n."), [Step::Bool(true)]);
    assert_eq!(steps(b"K\x07."), [Step::Int(7)]);
    assert_eq!(steps(b"J\xff\xff\xff\xff."), [Step::Int(-1)]);
    assert_eq!(steps(b"M\xe9\x03."), [Step::Int(1001)]);
    assert_eq!(steps(b"\x8a\x00."), [Step::Int(0)]);
    assert_eq!(steps(b"\x8a\x02\x00\x80."), [Step::Int(-32768)]);
    assert_eq!(steps(b"\x8a\x09\0\0\0\0\0\0\0\0\x40."), [Step::BigInt(vec![0, 0, 0, 0, 0, 0, 0, 0, 0x40])]);
    assert_eq!(steps(b"G\x3f\xf8\0\0\0\0\0\0."), [Step::Float(1.5)]);
    assert_eq!(steps(b"F1.5\n."), [Step::Float(1.5)]);
    assert_eq!(steps("X\x02\0\0\0é.".as_bytes()), [Step::Str("é".into())]);
    assert_eq!(steps(b"C\x02ab."), [Step::Bytes(b"ab".to_vec())]);
}

#[test]
fn containers_refer_to_earlier_values() {
    // [1, (1, 1)] with the 1 shared through the memo
    assert_eq!(
        steps(b"](K\x01q\x00h\x00h\x00\x86e."),
        [Step::List, Step::Int(1), Step::Tuple(vec![1, 1]), Step::Append { list: 0, items: vec![1, 2] }]
    );
    assert_eq!(
        steps(b"}K\x01K\x02s."),
        [Step::Dict, Step::Int(1), Step::Int(2), Step::SetItems { dict: 0, items: vec![(1, 2)] }]
    );
    // A list that contains itself.
    assert_eq!(steps(b"]q\x00h\x00a."), [Step::List, Step::Append { list: 0, items: vec![0] }]);
}

#[test]
fn builtins_become_plain_values() {
    assert_eq!(steps(b"c__builtin__\nset\n](K\x01e\x85R.").last(), Some(&Step::Add { set: 4, items: vec![2] }));
    assert_eq!(
        steps(b"c_codecs\nencode\nX\x02\0\0\0abX\x06\0\0\0latin1\x86R.").last(),
        Some(&Step::Bytes(b"ab".to_vec()))
    );
    assert_eq!(
        steps(b"cbuiltins\ncomplex\nG\0\0\0\0\0\0\0\0G\x3f\xf0\0\0\0\0\0\0\x86R.").last(),
        Some(&Step::Complex(0.0, 1.0))
    );
}

#[test]
fn storages_and_calls() {
    let steps = steps(
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x06tQK\0K\x06\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR.",
    );
    let storage = Storage {
        module: "torch".into(),
        class: "FloatStorage".into(),
        key: "0".into(),
        location: "cpu".into(),
        elements: 6,
        slice: None,
    };
    assert!(steps.contains(&Step::Storage(storage)));
    assert!(matches!(steps.last(), Some(Step::Call { function: 0, .. })));
}

#[test]
fn unknown_globals_are_named() {
    for (pickle, name) in [
        (&b"cos\nsystem\nX\x02\0\0\0ls\x85R."[..], "os.system"),
        (b"c__builtin__\neval\n.", "eval"),
        (b"cbuiltins\ngetattr\n.", "getattr"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (b"ctorch\nload\n.", "torch.load"),
        (b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.", "torch._utils._rebuild_tensor_v2.__globals__"),
        (b"ctorch.storage\n_load_from_bytes\n.", "torch.storage._load_from_bytes"),
    ] {
        let error = interpret(pickle, &Policy::default(), Limits::default()).unwrap_err();
        assert!(matches!(&error, Error::Global(found) if found == name), "{error}");
    }
    let policy = Policy::with(["my.Class".to_owned()]);
    assert!(interpret(b"cmy\nClass\n)\x81.", &policy, Limits::default()).is_ok());
}

#[test]
fn names_that_may_not_be_called() {
    for pickle in
        [&b"ctorch\nTensor\n)R."[..], b"ctorch\nFloatStorage\nK\x01\x85R.", b"cbuiltins\nlist\n)R.", b"K\x01)R."]
    {
        assert!(refusal(pickle).starts_with("Trying to call reduce for unrecognized function"), "{pickle:?}");
    }
    // `bytearray(2**40)` would take a terabyte.
    assert!(refusal(b"cbuiltins\nbytearray\n\x8a\x06\0\0\0\0\0\x01\x85R.").contains("ByteArray"));
}

#[test]
fn opcodes_in_impossible_places() {
    for pickle in [
        &b""[..],
        b".",
        b"\x80",
        b"R.",
        b"t.",
        b"h\x05.",
        b"\xff.",
        b"0.",
        b"2.",
        b"(K\x01R.",
        b"K\x01K\x01b.",
        b"K\x01Q.",
        b"](K\x01e",
        b"}(K\x01u.",
        b"}]K\x01s.",
        b"X\xff\xff\xff\xff.",
        b"B\xff\xff\xff\x7f.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x8b\xff\xff\xff\xff.",
        b"cos",
        b"Iabc\n.",
        b"Fabc\n.",
        b"X\x01\0\0\0\xff.",
        b"K\x01a.",
        b"N\x90.",
    ] {
        assert!(interpret(pickle, &Policy::default(), Limits::default()).is_err(), "{pickle:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    assert!(matches!(
        interpret(&[&b")"[..], &[b'\x85'; 100_000], b"."].concat(), &Policy::default(), Limits::default()),
        Err(Error::Limit("nesting"))
    ));
    let mut lists = vec![b']'; 100_000];
    lists.extend([b'a'; 99_999]);
    lists.push(b'.');
    // Filled from the inside, each list deepens the one around it.
    assert!(matches!(interpret(&lists, &Policy::default(), Limits::default()), Err(Error::Limit("nesting"))));
}

#[test]
fn a_small_key_that_is_a_huge_tree_is_refused() {
    // t = (); forty times t = (t, t); {t: None}: hashing it would take a trillion steps.
    let mut pickle = b"})".to_vec();
    for _ in 0..40 {
        pickle.extend(b"2\x86");
    }
    pickle.extend(b"Ns.");
    assert!(matches!(
        interpret(&pickle, &Policy::default(), Limits::default()),
        Err(Error::Limit("the size of a key"))
    ));
}

#[test]
fn copying_again_and_again_is_charged() {
    // A list of 10,000 items made a set 200,000 times.
    let mut pickle = b"](".to_vec();
    pickle.extend(b"K\x01".repeat(10_000));
    pickle.extend(b"eq\0");
    pickle.extend(b"c__builtin__\nset\nq\x01h\0\x85R0".to_vec());
    pickle.extend(b"h\x01h\0\x85R0".repeat(200_000));
    pickle.extend(b"h\0.");
    assert!(matches!(
        interpret(&pickle, &Policy::default(), Limits::default()),
        Err(Error::Limit("the work it asks for"))
    ));
}

#[test]
fn every_truncation_and_many_mutations_give_a_value_or_an_error() {
    let archive = crate::zip::Archive::open(fixture("nested.pt")).unwrap();
    let pickle = archive.read("data.pkl").unwrap();
    let whole = interpret(&pickle, &Policy::default(), Limits::default()).unwrap();
    assert_eq!(whole.length, pickle.len());
    for length in 0..pickle.len() {
        assert!(interpret(&pickle[..length], &Policy::default(), Limits::default()).is_err());
    }
    let mut random = Random(1);
    for _ in 0..100_000 {
        let mut mutated = pickle.clone();
        for _ in 0..=random.below(3) {
            let place = random.below(mutated.len());
            match random.below(4) {
                0 => mutated[place] = random.below(256) as u8,
                1 => mutated[place] ^= 1 << random.below(8),
                2 => drop(mutated.remove(place)),
                _ => mutated.insert(place, random.below(256) as u8),
            }
        }
        if let Ok(outcome) = interpret(&mutated, &Policy::inspect(), Limits::default()) {
            check_order(&outcome);
        }
        let _ = interpret(&mutated, &Policy::default(), Limits::default());
    }
}

/// Checks that every step uses only values that already exist.
fn check_order(outcome: &Outcome) {
    let mut made = 0;
    for step in &outcome.steps {
        let used: Vec<Id> = match step {
            Step::Tuple(items) | Step::FrozenSet(items) => items.clone(),
            Step::Call { function, arguments } => vec![*function, *arguments],
            Step::New { class, arguments } => vec![*class, *arguments],
            Step::Append { list, items } => [&[*list], items.as_slice()].concat(),
            Step::Add { set, items } => [&[*set], items.as_slice()].concat(),
            Step::SetItems { dict, items } => {
                items.iter().flat_map(|&(key, value)| [key, value]).chain([*dict]).collect()
            }
            Step::Build { object, state } => vec![*object, *state],
            _ => Vec::new(),
        };
        assert!(used.iter().all(|&id| id < made), "{step:?}");
        made += u32::from(step.makes_value());
    }
    assert!(outcome.root < made);
}

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A small random generator, so that a failure can be repeated.
pub(crate) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }
}
