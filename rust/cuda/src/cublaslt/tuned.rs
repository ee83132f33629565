//! The algorithm of a product while TunableOp is in use: the recorded one, or the fastest of those that the library recommends.
//!
//! A recorded algorithm is named by the bytes with which the library describes it. It is looked for among those that the library
//! recommends for the operands at hand: no other one runs, whatever a file says.

use std::collections::BTreeMap;

use cudarc::cublaslt::sys::{cublasStatus_t as Status, cudaDataType_t as Data};
use half::{bf16, f16};
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Class, Result};

use super::library::{check, found};
use super::plan::{ADDEND, Key, OUT, Plan};
use super::prepared::{Algorithm, Call, Prepared};
use crate::card::Card;
use crate::storage::Workspace;
use crate::tunable::{self, Entry, Setting, Trial, Validators};
use crate::{capture, copy};

/// How many algorithms are measured at most.
const MOST: usize = 32;
/// The algorithm that the library recommends first.
const DEFAULT: &str = "Default";
/// Copies of operands begin at multiples of this, as memory does.
const ALIGNMENT: usize = 256;
/// More copies than runs are of no use.
const MOST_COPIES: usize = 1024;

/// The algorithms that were chosen, each with the state of the settings and results that it follows from.
static CHOSEN: ForkMutex<BTreeMap<Key, (u64, Algorithm)>> = ForkMutex::new(Rank::Tables, BTreeMap::new());
/// When there are as many, all are forgotten.
const MOST_CHOSEN: usize = 4096;

/// What must be the same where a file of results is read: this package, the library, and the GPU's architecture.
pub fn validators(card: Option<&Card>) -> Validators {
    let mut all = vec![("PT_VERSION".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    if let (Some(version), Some(card)) = (found(), card) {
        all.push(("CUBLASLT_VERSION".to_owned(), version.to_string()));
        all.push(("CUDA_ARCH_NAME".to_owned(), format!("sm_{}{}", card.properties.major, card.properties.minor)));
    }
    all
}

/// The name of an algorithm in files: a hash of its bytes (FNV-1a), which the library keeps from run to run.
fn name(algorithm: &Algorithm) -> String {
    let bytes = algorithm.algo.data.iter().flat_map(|word| word.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("Gemm_CublasLt_{hash:016x}")
}

/// The algorithms for a product, the recommended one first.
fn candidates(card: &Card, key: &Key, prepared: &Prepared) -> Result<Vec<(String, Algorithm)>> {
    let mut all = vec![(DEFAULT.to_owned(), prepared.recommended)];
    for algorithm in prepared.algorithms(card, key, MOST)? {
        let known = all.iter().any(|(_, other)| other.algo.data == algorithm.algo.data);
        if algorithm.state == Status::CUBLAS_STATUS_SUCCESS && !known {
            all.push((name(&algorithm), algorithm));
        }
    }
    Ok(all)
}

/// The algorithm for a product, which is measured if it is not known, tuning is on, and nothing is captured.
///
/// # Safety
/// As `Prepared::run`, for these operands.
pub unsafe fn algorithm(card: &Card, key: &Key, prepared: &Prepared, call: &Call, at: [u64; 4]) -> Result<Algorithm> {
    let generation = tunable::generation();
    if let Some(&(made, algorithm)) = CHOSEN.lock().get(key)
        && made == generation
    {
        return Ok(algorithm);
    }
    let _relaxed = capture::Relaxed::begin();
    let (names, validators) = (key.plan.names(), validators(Some(card)));
    let mut known = tunable::find(card.index, &validators, &names)?;
    if known.is_none() && tunable::get(Setting::Tuning)? == 1 {
        if capture::is_capturing(card.index, call.stream) {
            // A later call measures.
            return Ok(prepared.recommended);
        }
        // SAFETY: guaranteed by the caller.
        if let Some((solution, milliseconds)) = unsafe { measure(card, key, prepared, call, at)? } {
            let (operator, parameters) = names;
            known = Some(solution.clone());
            tunable::add(&validators, Entry { operator, parameters, solution, milliseconds })?;
        }
    } else if known.is_none() && tunable::get(Setting::RecordUntuned)? == 1 {
        tunable::note_untuned(card.index, &names);
    }
    let mut algorithm = prepared.recommended;
    if let Some(name) = known.filter(|name| name != DEFAULT)
        && let Some((_, own)) = candidates(card, key, prepared)?.into_iter().find(|(own, _)| *own == name)
    {
        algorithm = own;
    }
    let mut chosen = CHOSEN.lock();
    if chosen.len() >= MOST_CHOSEN {
        chosen.clear();
    }
    chosen.insert(*key, (generation, algorithm));
    Ok(algorithm)
}

/// A product that is measured. It writes to copies of its result.
struct Measured<'a> {
    card: &'a Card,
    plan: &'a Plan,
    prepared: &'a Prepared,
    call: &'a Call<'a>,
    algorithms: Vec<(String, Algorithm)>,
    at: [u64; 4],
    /// The operands of each turn, in memory that `_copies` has.
    turns: Vec<[u64; 4]>,
    _copies: Workspace,
    workspace: Workspace,
    check: tunable::Check,
    /// The numbers of the result by the recommended algorithm, if they are compared.
    expected: Vec<f64>,
}

/// The name and the milliseconds of the fastest algorithm; `None` if there is no memory for the measurement.
///
/// # Safety
/// As `Prepared::run`, for these operands.
unsafe fn measure(
    card: &Card,
    key: &Key,
    prepared: &Prepared,
    call: &Call,
    at: [u64; 4],
) -> Result<Option<(String, f64)>> {
    let plan = &key.plan;
    let algorithms = candidates(card, key, prepared)?;
    let (operator, parameters) = plan.names();
    tunable::log(2, || format!("finding fastest for {operator}({parameters}) out of {} candidates", algorithms.len()));
    let rotating = tunable::rotating_bytes(card.properties.second_level_cache as usize)?;
    let in_place = plan.third == ADDEND && at[ADDEND] == at[OUT];
    // Where an operand is copied to within a copy. The result always is; its place is the addend's too if it overwrites it.
    let extents = plan.extents();
    let mut copied: Vec<(usize, usize)> = vec![(OUT, extents[3])];
    if rotating > 0 {
        copied.extend([(plan.order[0], extents[0]), (plan.order[1], extents[1])]);
        copied.extend((plan.third == ADDEND && !in_place).then_some((ADDEND, extents[2])));
    }
    let size: usize = copied.iter().map(|(_, bytes)| bytes.next_multiple_of(ALIGNMENT)).sum();
    let count = (rotating / size + 1).min(MOST_COPIES);
    let space = algorithms.iter().map(|(_, algorithm)| algorithm.workspaceSize).max().unwrap_or(0);
    let room = |bytes: usize| match Workspace::new(card.index, call.stream, bytes) {
        Err(error) if error.class() == Class::DeviceMemory => Ok(None),
        found => found.map(Some),
    };
    let copies = match room(count * size)? {
        Some(copies) => Some((copies, count)),
        None => room(size)?.map(|copies| (copies, 1)),
    };
    let (Some((copies, count)), Some(workspace)) = (copies, room(space)?) else { return Ok(None) };
    let mut turns = Vec::with_capacity(count);
    let mut place = copies.pointer().expose_provenance();
    for _ in 0..count {
        let mut own = at;
        for &(operand, bytes) in &copied {
            // SAFETY: both places have as many bytes, and the caller and `copies` hold them for the stream.
            unsafe {
                copy::between((card.index, at[operand] as usize), (card.index, place), bytes, call.stream)?;
            }
            own[operand] = place as u64;
            place += bytes.next_multiple_of(ALIGNMENT);
        }
        if in_place {
            own[ADDEND] = own[OUT];
        }
        turns.push(own);
    }
    let check = tunable::numerical_check()?;
    let mut measured = Measured {
        card,
        plan,
        prepared,
        call,
        algorithms,
        at,
        turns,
        _copies: copies,
        workspace,
        check,
        expected: Vec::new(),
    };
    if check.enabled {
        measured.expected = measured.numbers(0)?;
    }
    let best = tunable::fastest(card.index, call.stream, &mut measured)?;
    Ok(best.map(|(candidate, milliseconds)| {
        let name = measured.algorithms.swap_remove(candidate).0;
        tunable::log(2, || format!("└──found fastest for {operator}({parameters}) {name}"));
        (name, milliseconds)
    }))
}

impl Measured<'_> {
    /// The numbers of the result by an algorithm; none if the library refuses it.
    fn numbers(&mut self, candidate: usize) -> Result<Vec<f64>> {
        let (to, bytes) = (self.turns[0][OUT] as usize, self.plan.extents()[3]);
        // An addend that the result overwrites is there again.
        // SAFETY: both places have as many bytes, which are held for the stream.
        unsafe {
            copy::between((self.card.index, self.at[OUT] as usize), (self.card.index, to), bytes, self.call.stream)?;
        }
        if !self.run(candidate, 0)? {
            return Ok(Vec::new());
        }
        let mut memory = vec![0; bytes];
        // SAFETY: both places have as many bytes, and the memory of the host stays until the stream has passed.
        unsafe { copy::to_host(self.card.index, memory.as_mut_ptr(), to, bytes, self.call.stream)? };
        crate::stream::synchronize(self.card.index, self.call.stream)?;
        let Plan { rows, columns, leading, count, ref steps, ref types, .. } = *self.plan;
        let width = self.plan.width();
        let mut numbers = Vec::new();
        for first in (0..i64::from(count)).flat_map(|n| (0..columns).map(move |m| n * steps[OUT] + m * leading)) {
            let column = &memory[first as usize * width..][..rows as usize * width];
            numbers.extend(match types.data {
                Data::CUDA_R_16F => column.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f64()).collect(),
                Data::CUDA_R_16BF => column.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).to_f64()).collect(),
                Data::CUDA_R_32F | Data::CUDA_C_32F => {
                    column.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect()
                }
                _ => column.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect::<Vec<f64>>(),
            });
        }
        Ok(numbers)
    }
}

impl Trial for Measured<'_> {
    fn candidates(&self) -> usize {
        self.algorithms.len()
    }

    fn name(&self, candidate: usize) -> &str {
        &self.algorithms[candidate].0
    }

    fn run(&mut self, candidate: usize, turn: usize) -> Result<bool> {
        let (algorithm, at) = (&self.algorithms[candidate].1, self.turns[turn % self.turns.len()]);
        // SAFETY: guaranteed by the caller of `measure`; the copies and the workspace are held.
        let status = unsafe { self.prepared.run(self.card, self.plan, self.call, algorithm, at, &self.workspace)? };
        if status == Status::CUBLAS_STATUS_NOT_SUPPORTED || status == Status::CUBLAS_STATUS_INVALID_VALUE {
            return Ok(false);
        }
        check(
            status,
            "cublasLtMatmul( handle, descriptor, &alpha, a, b, &beta, c, d, &algorithm, workspace, size, stream)",
        )?;
        Ok(true)
    }

    fn is_right(&mut self, candidate: usize) -> Result<bool> {
        if !self.check.enabled {
            return Ok(true);
        }
        let (numbers, tunable::Check { atol, rtol, .. }) = (self.numbers(candidate)?, self.check);
        let near =
            |(&own, &expected): (&f64, &f64)| own == expected || (own - expected).abs() <= atol + rtol * expected.abs();
        Ok(numbers.len() == self.expected.len() && numbers.iter().zip(&self.expected).all(near))
    }
}
