//! Replays recorded streams of torch 2.13 and compares every bit; `torch_2_13.txt` explains its own format.

use half::{bf16, f16};
use rushlight_rng::distributions::*;
use rushlight_rng::{Element, Float, FullRange, FullRange64, Stream};

/// One line of the recording.
struct Call<'a> {
    operation: &'a str,
    dtype: &'a str,
    length: usize,
    arguments: Vec<f64>,
    integers: Vec<i64>,
}

#[test]
fn streams_equal_torchs() {
    let mut stream = Stream::default();
    let (mut calls, mut wrong) = (0, Vec::new());
    for line in include_str!("torch_2_13.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(seed) = line.strip_prefix("seed ") {
            stream.manual_seed(seed.parse().unwrap());
            continue;
        }
        let (call, expected) = line.split_once(" = ").unwrap();
        let mut words = call.split(' ');
        let mut next = || words.next().unwrap();
        let (operation, dtype, length) = (next(), next(), next().parse().unwrap());
        let arguments: Vec<&str> = words.collect();
        let call = Call {
            operation,
            dtype,
            length,
            arguments: arguments.iter().map(|x| x.parse().unwrap()).collect(),
            integers: arguments.iter().filter_map(|x| x.parse().ok()).collect(),
        };
        let found = call.replay(&mut stream);
        calls += 1;
        if found != expected {
            wrong.push(format!("{line}\n    found {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {calls} calls differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(calls, 778, "the recording is incomplete");
}

impl Call<'_> {
    fn replay(&self, stream: &mut Stream) -> String {
        match self.dtype {
            _ if self.operation == "state" => summary(&stream.state()),
            "f32" => self.float::<f32>(stream),
            "f64" => self.float::<f64>(stream),
            "f16" => self.float::<f16>(stream),
            "bf16" => self.float::<bf16>(stream),
            "u8" => self.full::<u8>(stream),
            "i8" => self.full::<i8>(stream),
            "i16" => self.full::<i16>(stream),
            "i32" => self.full::<i32>(stream),
            "i64" if self.operation == "random64" => self.full_64::<i64>(stream),
            "i64" => self.full::<i64>(stream),
            "bool" => self.full::<bool>(stream),
            "u16" => self.any::<u16>(stream),
            "u32" => self.any::<u32>(stream),
            "u64" => self.any::<u64>(stream),
            other => panic!("dtype {other}"),
        }
    }

    fn float<T: Float + FullRange + Bytes>(&self, stream: &mut Stream) -> String {
        let mut out = vec![T::default(); self.length];
        let a = |i: usize| self.arguments[i];
        match self.operation {
            "uniform" => uniform(stream, &mut out, a(0), a(1)),
            "normal" => normal(stream, &mut out, a(0), a(1)),
            "normal_serial" => {
                out.clear();
                normal_serial(stream, self.length, a(0), a(1), |value| out.push(T::from_f64(value)));
            }
            "exponential" => exponential(stream, &mut out, a(0)),
            "cauchy" => cauchy(stream, &mut out, a(0), a(1)),
            "log_normal" => log_normal(stream, &mut out, a(0), a(1)),
            "dropout" => dropout_mask(stream, &mut out, a(0)),
            "race" => exponential_race(stream, &mut out, &weights(self.length)),
            "multinomial" => {
                let mut out = vec![0i64; self.length];
                multinomial_with_replacement(stream, &mut out, &weights::<T>(50)).unwrap();
                return summary(&out);
            }
            "random64" => {
                return match self.dtype {
                    "f32" => self.full_64::<f32>(stream),
                    "f64" => self.full_64::<f64>(stream),
                    _ => self.full_64::<bf16>(stream),
                };
            }
            _ => return self.full::<T>(stream),
        }
        summary(&out)
    }

    fn full<T: FullRange + Bytes>(&self, stream: &mut Stream) -> String {
        if self.operation != "random" {
            return self.any::<T>(stream);
        }
        let mut out = vec![T::default(); self.length];
        random(stream, &mut out);
        summary(&out)
    }

    fn full_64<T: FullRange64 + Bytes>(&self, stream: &mut Stream) -> String {
        let mut out = vec![T::default(); self.length];
        random_full_64_bits(stream, &mut out);
        summary(&out)
    }

    fn any<T: Element + Bytes>(&self, stream: &mut Stream) -> String {
        let mut out = vec![T::default(); self.length];
        match self.operation {
            "randint" => {
                let range = IntRange::new::<T>(self.integers[0], self.integers[1]).unwrap();
                random_from_to(stream, &mut out, range);
            }
            "randfrom" => {
                let range = IntRange::starting::<T>(self.integers[0]).unwrap();
                random_from_to(stream, &mut out, range);
            }
            "randperm" => randperm(stream, &mut out),
            "geometric" => geometric(stream, &mut out, self.arguments[0]),
            "bernoulli" => bernoulli(stream, &mut out, self.arguments[0]),
            "bernoulli_p16" => bernoulli_each(stream, &mut out, &probabilities::<f16>(self.length)),
            "bernoulli_p32" => bernoulli_each(stream, &mut out, &probabilities::<f32>(self.length)),
            "bernoulli_p64" => bernoulli_each(stream, &mut out, &probabilities::<f64>(self.length)),
            other => panic!("operation {other}"),
        }
        summary(&out)
    }
}

fn probabilities<T: Float>(count: usize) -> Vec<T> {
    (0..count).map(|i| T::from_f64((i % 11) as f64 / 10.0)).collect()
}

fn weights<T: Float>(count: usize) -> Vec<T> {
    (0..count).map(|i| T::from_f64((i * 7 % 13) as f64 / 8.0)).collect()
}

/// The hash of all bytes and the first three values, in the recording's format.
fn summary<T: Bytes>(values: &[T]) -> String {
    let hash = values
        .iter()
        .flat_map(|value| value.bytes())
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut text = format!("{hash:016x}");
    for value in values.iter().take(3) {
        text.push(' ');
        value.bytes().iter().rev().for_each(|byte| text += &format!("{byte:02x}"));
    }
    text
}

/// An element's bytes, little-endian.
trait Bytes {
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! bytes {
    ($($type:ident)*) => {$(
        impl Bytes for $type {
            fn bytes(&self) -> Vec<u8> { self.to_le_bytes().to_vec() }
        }
    )*};
}
bytes!(u8 i8 i16 i32 i64 u16 u32 u64 f32 f64 f16 bf16);

impl Bytes for bool {
    fn bytes(&self) -> Vec<u8> {
        vec![(*self).into()]
    }
}
