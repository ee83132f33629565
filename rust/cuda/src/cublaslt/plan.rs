//! A product in the terms of cuBLASLt: dtypes, which matrices it reads, and which factor comes first.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue,
    cublasLtMatmulDescAttributes_t as OperationAttribute, cublasLtReductionScheme_t as Reduction,
    cudaDataType_t as Data,
};
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Result};
use smallvec::SmallVec;

use super::library::{Operation, is_available, operation_of};
use crate::matmul::{Matrices, Sizes};

/// Whether float32 is rounded to TF32 before it is multiplied.
static TF32: AtomicBool = AtomicBool::new(false);
/// How the parts of a long sum may be joined in float16 and in bfloat16 (`cublasLtReductionScheme_t`).
static REDUCTIONS: [AtomicU32; 2] = [const { AtomicU32::new(Reduction::CUBLASLT_REDUCTION_SCHEME_MASK as u32) }; 2];

/// Sets whether float32 may be rounded to TF32 before it is multiplied.
pub fn allow_tf32(allowed: bool) {
    TF32.store(allowed, Ordering::Relaxed);
}

/// Sets whether a sum of float16 or bfloat16 may be divided, and whether its parts may be rounded to this dtype.
pub fn allow_reductions(dtype: DType, rounded: bool, divided: bool) {
    let scheme = match (rounded, divided) {
        (true, _) => Reduction::CUBLASLT_REDUCTION_SCHEME_MASK,
        (false, true) => Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
        (false, false) => Reduction::CUBLASLT_REDUCTION_SCHEME_NONE,
    };
    REDUCTIONS[usize::from(dtype == DType::BF16)].store(scheme as u32, Ordering::Relaxed);
}

/// How cuBLASLt names a dtype, what it computes in, and the dtype of the factors of the product and of the addend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Types {
    pub data: Data,
    compute: Compute,
    scale: Data,
    pub reductions: u32,
}

impl Types {
    fn of(dtype: DType) -> Option<Types> {
        let all = Reduction::CUBLASLT_REDUCTION_SCHEME_MASK as u32;
        let single = match TF32.load(Ordering::Relaxed) {
            true => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            false => Compute::CUBLAS_COMPUTE_32F,
        };
        let (data, compute, scale, reductions) = match dtype {
            DType::F16 | DType::BF16 => {
                let brief = dtype == DType::BF16;
                let reductions = REDUCTIONS[usize::from(brief)].load(Ordering::Relaxed);
                let data = if brief { Data::CUDA_R_16BF } else { Data::CUDA_R_16F };
                (data, Compute::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F, reductions)
            }
            DType::F32 => (Data::CUDA_R_32F, single, Data::CUDA_R_32F, all),
            DType::C64 => (Data::CUDA_C_32F, single, Data::CUDA_C_32F, all),
            DType::F64 => (Data::CUDA_R_64F, Compute::CUBLAS_COMPUTE_64F, Data::CUDA_R_64F, all),
            DType::C128 => (Data::CUDA_C_64F, Compute::CUBLAS_COMPUTE_64F, Data::CUDA_C_64F, all),
            _ => return None,
        };
        Some(Types { data, compute, scale, reductions })
    }
}

/// Whether products in a dtype are given to cuBLASLt.
pub fn multiplies(dtype: DType) -> bool {
    Types::of(dtype).is_some() && is_available()
}

/// A matrix in memory. Distances are in elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    pub rows: i64,
    pub columns: i64,
    pub row_stride: i64,
    pub column_stride: i64,
}

impl View {
    fn transposed(self) -> View {
        let View { rows, columns, row_stride, column_stride } = self;
        View { rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride }
    }

    /// The distance between columns, if the elements of a column are adjacent and columns do not overlap.
    fn leading(self) -> Option<i64> {
        let apart = if self.columns == 1 { self.rows } else { self.column_stride };
        ((self.row_stride == 1 || self.rows == 1) && apart >= self.rows).then_some(apart)
    }

    fn is_row_major(self) -> bool {
        self.transposed().leading().is_some()
    }

    /// Whether cuBLASLt can read it: by columns or by rows.
    pub fn is_readable(self) -> bool {
        self.as_factor().is_some()
    }

    /// The matrix by columns that cuBLASLt reads, whether that is the transposition, and the distance between columns.
    pub fn as_factor(self) -> Option<(View, bool, i64)> {
        match self.leading() {
            Some(leading) => Some((self, false, leading)),
            None => self.transposed().leading().map(|leading| (self.transposed(), true, leading)),
        }
    }

    /// Whether it can be added to a result: it lies in the same order.
    pub fn adds_to(self, result: View) -> bool {
        if result.is_row_major() { self.is_row_major() } else { self.leading().is_some() }
    }

    /// Whether it is one row for all rows of a result, which cuBLASLt adds when it stores a row-major one.
    pub fn is_bias_of(self, result: View) -> bool {
        let row = self.columns == 1 || self.column_stride == 1;
        row && (self.rows == 1 || self.row_stride == 0) && result.is_row_major()
    }
}

/// Whether a row can be added when the result is stored.
pub fn adds_bias(dtype: DType) -> bool {
    !dtype.is_complex()
}

/// The largest power of two that divides all addresses, up to what kernels make use of.
fn alignment(addresses: u64) -> u32 {
    1 << addresses.trailing_zeros().min(8)
}

/// The places of the operands in `Matrices`.
pub const OUT: usize = 0;
pub const ADDEND: usize = 3;

/// A product as cuBLASLt takes it: the result by columns, which is its transposition if it is row-major.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    pub types: Types,
    /// How many products a call has, and the distances from the operands of one to those of the next.
    pub count: c_int,
    pub steps: [i64; 4],
    /// The factors in their order, and their places among the operands.
    pub factors: [View; 2],
    pub order: [usize; 2],
    pub rows: i64,
    pub columns: i64,
    /// The distances between the columns of the result and of the addend.
    pub leading: i64,
    pub added: i64,
    /// The operand that is added: without one the result, with the factor zero.
    pub third: usize,
    /// Whether the addend is one row for all, which is added when the result is stored.
    pub with_bias: bool,
}

impl Plan {
    /// `None` for a product that cuBLASLt does not take.
    pub fn of(
        dtype: DType,
        matrices: &Matrices,
        sizes: &Sizes,
        batch: &LoopNest<4>,
        beta: [u64; 2],
        has_addend: bool,
    ) -> Option<Plan> {
        if !is_available() || sizes.inner == 0 {
            return None;
        }
        let width = dtype.size() as i64;
        let in_elements = |bytes: i64| (bytes % width == 0).then_some(bytes / width);
        let view = |n: usize, rows: u64, columns: u64| {
            let (row_stride, column_stride) = (in_elements(matrices.rows[n])?, in_elements(matrices.columns[n])?);
            Some(View { rows: rows as i64, columns: columns as i64, row_stride, column_stride })
        };
        let (m, n, k) = (sizes.rows, sizes.columns, sizes.inner);
        let (out, a, b, addend) = (view(OUT, m, n)?, view(1, m, k)?, view(2, k, n)?, view(ADDEND, m, n)?);
        let step = |n: usize| in_elements(batch.inner_strides()[n] as i64).filter(|&step| step >= 0);
        let steps = [step(0)?, step(1)?, step(2)?, step(3)?];

        let turned = out.is_row_major();
        let turn = |view: View| if turned { view.transposed() } else { view };
        let (factors, order) = if turned { ([turn(b), turn(a)], [2, 1]) } else { ([a, b], [1, 2]) };
        let View { rows, columns, .. } = turn(out);
        let leading = turn(out).leading()?;
        let repeats = (0..batch.rank()).all(|dim| batch.strides(dim)[ADDEND] == 0);
        let with_bias = has_addend && repeats && addend.is_bias_of(out) && adds_bias(dtype) && is_one(beta, dtype);
        let adds_matrix = has_addend && !with_bias;
        let added = if adds_matrix { turn(addend).leading()? } else { leading };
        let (types, count) = (Types::of(dtype)?, c_int::try_from(batch.inner()).ok()?);
        let third = if adds_matrix { ADDEND } else { OUT };
        Some(Plan { types, count, steps, factors, order, rows, columns, leading, added, third, with_bias })
    }

    /// The operands in memory for each call.
    pub fn starts(matrices: &Matrices, batch: &LoopNest<4>) -> SmallVec<[[u64; 4]; 1]> {
        let mut starts = SmallVec::new();
        batch.runs(0..batch.numel(), |offsets, _| {
            starts.push([0, 1, 2, 3].map(|n| matrices.at[n].wrapping_add_signed(offsets[n] as i64)));
        });
        starts
    }

    /// What the addresses of the factors, of the addend and of the result have in common, in the order of the library's arguments.
    pub fn alignments(&self, starts: &[[u64; 4]]) -> [u32; 4] {
        let together = |n: usize| starts.iter().fold(0, |all, at| all | at[n]);
        let stored = together(OUT) | if self.with_bias { together(ADDEND) } else { 0 };
        [together(self.order[0]), together(self.order[1]), together(self.third), stored].map(alignment)
    }

    /// The description of the product. `bias` is the address of the row that is added when the result is stored.
    pub fn operation(&self, bias: u64) -> Result<Operation> {
        let operation = operation_of(self.types.compute, self.types.scale)?;
        let transposed = self.factors.map(|view| view.as_factor().is_some_and(|(_, transposed, _)| transposed));
        // SAFETY: the epilogue and whether a factor is transposed are numbers of 32 bits, the bias is an address of the device.
        unsafe {
            operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_TRANSA, c_int::from(transposed[0]))?;
            operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_TRANSB, c_int::from(transposed[1]))?;
            if self.with_bias {
                operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, Epilogue::CUBLASLT_EPILOGUE_BIAS)?;
                operation.set(OperationAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
            }
        }
        Ok(operation)
    }
}

/// A product as torch names it in files of measured products.
impl Plan {
    /// The operator with its dtype and the orders of the factors, and the sizes with the distances between columns.
    pub fn names(&self) -> (String, String) {
        let operator = match (self.with_bias, self.count) {
            (true, _) => "GemmAndBiasTunableOp",
            (false, 1) => "GemmTunableOp",
            (false, _) => "GemmStridedBatchedTunableOp",
        };
        let dtype = match (self.types.data, self.types.compute) {
            (Data::CUDA_R_16F, _) => "Half",
            (Data::CUDA_R_16BF, _) => "BFloat16",
            (Data::CUDA_R_64F, _) => "double",
            (Data::CUDA_C_32F, _) => "c10::complex<float>",
            (Data::CUDA_C_64F, _) => "c10::complex<double>",
            (_, Compute::CUBLAS_COMPUTE_32F_FAST_TF32) => "tf32",
            _ => "float",
        };
        let [left, right] =
            self.factors.map(|view| view.as_factor().map_or((false, 0), |(_, turned, far)| (turned, far)));
        let order = |turned: bool| if turned { 'T' } else { 'N' };
        let orders = [order(left.0), order(right.0)].iter().collect::<String>();
        let batch = if self.count > 1 { format!("_B_{}", self.count) } else { String::new() };
        let parameters = format!(
            "{}_{}_{}_{}{batch}_ld_{}_{}_{}",
            orders.to_lowercase(),
            self.rows,
            self.columns,
            self.factors[0].columns,
            left.1,
            right.1,
            self.leading
        );
        (format!("{operator}_{dtype}_{orders}"), parameters)
    }

    /// The bytes from the first to past the last element of each operand, in the order of the library's arguments.
    pub fn extents(&self) -> [usize; 4] {
        let extent = |rows: i64, columns: i64, leading: i64, n: usize| {
            let last = (columns - 1) * leading + i64::from(self.count - 1) * self.steps[n];
            (last + rows) as usize * self.width()
        };
        let factor = |n: usize| {
            let (matrix, _, leading) = self.factors[n].as_factor().unwrap_or((self.factors[n], false, 0));
            extent(matrix.rows, matrix.columns, leading, self.order[n])
        };
        let summed = |leading: i64, n: usize| extent(self.rows, self.columns, leading, n);
        [factor(0), factor(1), summed(self.added, self.third), summed(self.leading, OUT)]
    }

    /// The bytes of an element.
    pub fn width(&self) -> usize {
        match self.types.data {
            Data::CUDA_R_16F | Data::CUDA_R_16BF => 2,
            Data::CUDA_R_32F => 4,
            Data::CUDA_C_64F => 16,
            _ => 8,
        }
    }
}

/// What the library's choice depends on: the device, the product, and the alignments of its operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub device: u8,
    pub plan: Plan,
    pub alignments: [u32; 4],
}

/// The bits of a number that are 1 in the dtype that products are summed in.
fn is_one(bits: [u64; 2], dtype: DType) -> bool {
    bits == if dtype == DType::F64 { [1f64.to_bits(), 0] } else { [u64::from(1f32.to_bits()), 0] }
}
