//! Products that were described once, with the algorithm that the library recommends.
//!
//! Descriptions and the library's choice are kept: asking again takes longer than a small product.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublaslt::sys::{self as lt, cublasStatus_t as Status};
use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};

use super::library::{MatrixLayout, Operation, check, handle_of, layout_of, preference_of, workspace_limit};
use super::plan::{Key, OUT, Plan};
use crate::card::Card;
use crate::storage::{Workspace, pointer};
use crate::{capture, stream};

/// An algorithm, and the bytes of workspace that it takes.
pub type Algorithm = lt::cublasLtMatmulHeuristicResult_t;

/// A product that was described once: itself, the factors, the addend and the result, and the algorithm that the library recommends.
pub struct Prepared {
    pub operation: Operation,
    left: MatrixLayout,
    right: MatrixLayout,
    addend: MatrixLayout,
    result: MatrixLayout,
    pub recommended: Algorithm,
}

// SAFETY: the objects are not changed any more, and any thread may use and destroy them.
unsafe impl Send for Prepared {}
// SAFETY: see above.
unsafe impl Sync for Prepared {}

/// The products that were described, `None` for those that the library does not take.
static PREPARED: ForkMutex<BTreeMap<Key, Option<Arc<Prepared>>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());
/// When there are as many, all are forgotten.
const MOST_PREPARED: usize = 4096;

/// What a call has beside the described product: its description where the call has its own, and the factors of the product and
/// of the addend.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub operation: &'a Operation,
    pub numbers: [[u64; 2]; 2],
    pub stream: StreamId,
}

impl Prepared {
    /// The product, described now if it is new.
    pub fn find(card: &Card, key: Key, bias: u64) -> Result<Option<Arc<Prepared>>> {
        if let Some(known) = PREPARED.lock().get(&key) {
            return Ok(known.clone());
        }
        let _relaxed = capture::Relaxed::begin();
        let made = Prepared::new(card, &key, bias)?.map(Arc::new);
        let mut all = PREPARED.lock();
        if all.len() >= MOST_PREPARED {
            all.clear();
        }
        all.insert(key, made.clone());
        Ok(made)
    }

    /// `None` if a factor lies neither by columns nor by rows, or if the library has no algorithm.
    fn new(card: &Card, key: &Key, bias: u64) -> Result<Option<Prepared>> {
        let plan = &key.plan;
        let data = plan.types.data;
        let factor = |n: usize| {
            let Some((matrix, _, leading)) = plan.factors[n].as_factor() else { return Ok(None) };
            layout_of(data, matrix.rows, matrix.columns, leading, plan.count, plan.steps[plan.order[n]]).map(Some)
        };
        let (Some(left), Some(right)) = (factor(0)?, factor(1)?) else { return Ok(None) };
        let summed =
            |leading: i64, n: usize| layout_of(data, plan.rows, plan.columns, leading, plan.count, plan.steps[n]);
        let (addend, result) = (summed(plan.added, plan.third)?, summed(plan.leading, OUT)?);
        let operation = plan.operation(bias)?;
        // SAFETY: all bytes zero are a value of the type.
        let recommended = unsafe { std::mem::zeroed() };
        let mut prepared = Prepared { operation, left, right, addend, result, recommended };
        let Some(&first) = prepared.algorithms(card, key, 1)?.first() else { return Ok(None) };
        prepared.recommended = first;
        Ok(Some(prepared))
    }

    /// The algorithms that the library recommends, the best one first: not more than `most`.
    pub fn algorithms(&self, card: &Card, key: &Key, most: usize) -> Result<Vec<Algorithm>> {
        let preference = preference_of(workspace_limit(card), key.plan.types.reductions, key.alignments)?;
        // SAFETY: all bytes zero are a value of the type.
        let mut found = vec![unsafe { std::mem::zeroed::<Algorithm>() }; most];
        let mut count = 0;
        // SAFETY: all objects are alive, and there is room for as many answers.
        let status = unsafe {
            lt::cublasLtMatmulAlgoGetHeuristic(
                handle_of(card)?,
                self.operation.handle,
                self.left.handle,
                self.right.handle,
                self.addend.handle,
                self.result.handle,
                preference.handle,
                most as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        // Another failure may pass: it is an error, so that no later call takes the kernel for it.
        if status != Status::CUBLAS_STATUS_NOT_SUPPORTED && status != Status::CUBLAS_STATUS_INVALID_VALUE {
            check(
                status,
                "cublasLtMatmulAlgoGetHeuristic( handle, descriptor, a, b, c, d, preference, wanted, &found, &count)",
            )?;
        }
        found.truncate(if status == Status::CUBLAS_STATUS_SUCCESS { count.max(0) as usize } else { 0 });
        Ok(found)
    }

    /// Enqueues one call by an algorithm. `at` has the operands in the order of `Matrices`.
    ///
    /// # Safety
    /// The addresses are those of matrices as they are described, which are held for the stream, as the workspace is. The factors of
    /// the product and of the addend have the dtype of the description.
    pub unsafe fn run(
        &self,
        card: &Card,
        plan: &Plan,
        call: &Call,
        algorithm: &Algorithm,
        at: [u64; 4],
        workspace: &Workspace,
    ) -> Result<Status> {
        let [alpha, beta] = &call.numbers;
        // SAFETY: the objects are alive; the rest is guaranteed by the caller.
        Ok(unsafe {
            lt::cublasLtMatmul(
                handle_of(card)?,
                call.operation.handle,
                alpha.as_ptr().cast::<c_void>(),
                pointer(at[plan.order[0]]),
                self.left.handle,
                pointer(at[plan.order[1]]),
                self.right.handle,
                beta.as_ptr().cast::<c_void>(),
                pointer(at[plan.third]),
                self.addend.handle,
                pointer(at[OUT]),
                self.result.handle,
                &raw const algorithm.algo,
                workspace.pointer(),
                workspace.bytes(),
                stream::handle(call.stream).cast(),
            )
        })
    }
}
