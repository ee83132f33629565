//! One product of matrices: what is packed when, and which tile of C is whose work.
//!
//! C is cut into tiles, each one task. A task walks over `k` in blocks: it packs its rows of A,
//! and multiplies them with the panels of B, which were packed for all tasks before, or are packed
//! by the task if it alone needs them, or are read where they lie if too few rows of A would repay
//! the packing. How C is cut may depend on the number of threads, since the sum of one element does not
//! depend on where its tile lies.

use super::element::{Combine, GemmElement, Job, Sum};
use super::kernel::{Kernels, Tile, a_stride};
use super::pack::{Format, Source};
use super::scratch::Scratch;
use super::vector::{self, Vector};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::{Acquire, Relaxed, Release}};

/// Products of fewer multiplications run on one thread.
const PARALLEL: usize = 3 << 19;
/// Fewest multiplications worth a task of their own.
const TASK: usize = 1 << 18;
/// Products of at most this many multiplications skip packing.
const TINY: usize = 128;
/// Panels of B that a task multiplies with all its rows before the next: what the second-level cache holds.
const NEAR_PANELS: usize = 16;
/// Bytes of an A that is near enough to be read where it lies, if few panels of B repay its packing.
const SMALL_A: usize = 256 << 10;
/// Bytes of packed B that all tasks share.
const SHARED: usize = 32 << 20;

/// One product: `c = alpha * a b + beta * addend`.
pub struct One<T: GemmElement> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: T::Sum,
    pub a: Source<T>,
    pub b: Source<T>,
    /// `beta`, not zero, and what it scales.
    pub addend: Option<(T::Sum, Source<T>)>,
    pub c: *mut T,
    pub c_strides: (isize, isize),
}

// SAFETY: the pointers are to operands that the caller of `gemm` keeps alive, and tasks write disjoint tiles.
unsafe impl<T: GemmElement> Sync for One<T> {}

impl<T: GemmElement> One<T> {
    /// The transposed product, `c' = b' a'`.
    fn transposed(&self) -> Self {
        One {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            addend: self.addend.map(|(beta, d)| (beta, d.transposed())),
            c_strides: (self.c_strides.1, self.c_strides.0),
            ..*self
        }
    }

    fn work(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// # Safety
    /// All pointers cover their matrices, and nothing else uses `c`.
    pub unsafe fn run(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.m == 0 || self.n == 0 {
                return;
            }
            if self.work() <= TINY {
                return self.tiny();
            }
            let few = |rows: usize, b: &Source<T>| rows == 1 || (rows <= 4 && b.row_stride == 1 && b.col_stride != 1);
            let (wide, tall) = (few(self.m, &self.b), few(self.n, &self.a.transposed()));
            let column_major = self.c_strides.0 == 1 && self.c_strides.1 != 1;
            if wide && (self.m <= self.n || !tall) {
                T::with_kernels(WithVector(self));
            } else if tall {
                T::with_kernels(WithVector(&self.transposed()));
            } else if column_major {
                T::with_kernels(WithTiles(&self.transposed()));
            } else {
                T::with_kernels(WithTiles(self));
            }
        }
    }

    /// The textbook's three loops.
    unsafe fn tiny(&self) {
        // SAFETY: as for `run`.
        unsafe {
            for i in 0..self.m {
                for j in 0..self.n {
                    let (mut a, mut b) = (self.a.row(i), self.b.at(0, j).ptr);
                    let mut sum = T::Sum::ZERO;
                    for _ in 0..self.k {
                        sum = sum.plus((*a).widen().times((*b).widen()));
                        a = a.wrapping_offset(self.a.col_stride);
                        b = b.wrapping_offset(self.b.row_stride);
                    }
                    sum = self.alpha.times(sum);
                    if let Some((beta, d)) = &self.addend {
                        sum = sum.plus(beta.times((*d.at(i, j).ptr).widen()));
                    }
                    *self.c_at(i, j) = T::narrow(sum);
                }
            }
        }
    }

    fn c_at(&self, i: usize, j: usize) -> *mut T {
        self.c.wrapping_offset(i as isize * self.c_strides.0 + j as isize * self.c_strides.1)
    }

    /// What writes the tile at `(i, j)` to C.
    fn combine(&self, i: usize, j: usize, rows: usize, cols: usize, sums: Option<(*const T::Sum, usize)>) -> Combine<T> {
        Combine {
            rows,
            cols,
            alpha: self.alpha,
            sums,
            addend: self.addend.map(|(beta, d)| (beta, d.at(i, j))),
            out: self.c_at(i, j),
            out_strides: self.c_strides,
        }
    }
}

/// Runs `f` for each task; on this thread alone unless `work` repays more.
fn tasks(count: usize, work: usize, f: impl Fn(usize) + Sync) {
    if count > 1 && work >= PARALLEL {
        rushlight_par::parallel_tasks(count, f);
    } else {
        (0..count).for_each(f);
    }
}

/// Runs all of `first` and then all of `second`, in one parallel loop, since waking threads costs more than waiting for them.
fn two_phases(
    firsts: usize,
    first: impl Fn(usize) + Sync,
    seconds: usize,
    second: impl Fn(usize) + Sync,
    work: usize,
) {
    // Pieces are begun in this counter's order. So when a piece of the second phase begins, those of the first are done or
    // being done by a running thread, and waiting for them ends.
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    tasks(firsts + seconds, work, |_| {
        let i = begun.fetch_add(1, Relaxed);
        if i < firsts {
            first(i);
            done.fetch_add(1, Release);
            return;
        }
        let mut rounds = 0u32;
        while done.load(Acquire) < firsts {
            rounds += 1;
            if rounds % 256 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        second(i - firsts);
    });
}

/// Part `i` of `0..len` cut into `count` nearly equal parts.
fn part(len: usize, count: usize, i: usize) -> Range<usize> {
    len * i / count..len * (i + 1) / count
}

/// A pointer that tasks share, each for its own part.
struct Shared<P>(*mut P);
// SAFETY: tasks write disjoint parts, and read only what was written before they began.
unsafe impl<P> Sync for Shared<P> {}

impl<P> Shared<P> {
    fn at(&self, i: usize) -> *mut P {
        self.0.wrapping_add(i)
    }
}

/// A product with few rows.
struct WithVector<'a, T: GemmElement>(&'a One<T>);

impl<T: GemmElement> Job<T> for WithVector<'_, T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) {
        let p = self.0;
        let Source { row_stride, col_stride, .. } = p.b;
        let dots = p.m > 1 || row_stride.unsigned_abs() <= col_stride.unsigned_abs();
        let kernel = if dots { kernels.vector.dots } else { kernels.vector.sums };
        let chunks = p.k.div_ceil(vector::K_CHUNK).max(1);
        let pieces = (p.work() / TASK).clamp(1, p.n.div_ceil(64));
        let (x_len, y_len) = (p.m * p.k, p.m * p.n);
        let scratch = Scratch::<T::Sum>::take(x_len + chunks * y_len);
        let (x, y) = (Shared(scratch.ptr()), Shared(scratch.ptr().wrapping_add(x_len)));
        // SAFETY: `run` was promised valid operands; the scratch holds x and one y for each chunk.
        unsafe {
            for i in 0..p.m {
                for q in 0..p.k {
                    *x.at(i * p.k + q) = (*p.a.at(i, q).ptr).widen();
                }
            }
            tasks(chunks * pieces, p.work(), |task| {
                let (chunk, piece) = (task / pieces, task % pieces);
                let (ks, js) = (part_at(p.k, vector::K_CHUNK, chunk), part(p.n, pieces, piece));
                kernel(&Vector {
                    rows: p.m,
                    k: ks.len(),
                    n: js.len(),
                    x: x.at(ks.start),
                    x_stride: p.k,
                    b: p.b.at(ks.start, js.start),
                    y: y.at(chunk * y_len + js.start),
                    y_stride: p.n,
                });
            });
            for chunk in 1..chunks {
                for i in 0..y_len {
                    *y.at(i) = (*y.at(i)).plus(*y.at(chunk * y_len + i));
                }
            }
            (kernels.combine)(&p.combine(0, 0, p.m, p.n, Some((y.at(0), p.n))));
        }
    }
}

/// Run `i` of at most `size` in `0..len`.
fn part_at(len: usize, size: usize, i: usize) -> Range<usize> {
    i * size..len.min((i + 1) * size)
}

/// A product by tiles.
struct WithTiles<'a, T: GemmElement>(&'a One<T>);

impl<T: GemmElement> Job<T> for WithTiles<'_, T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) {
        let threads = if self.0.work() >= PARALLEL { rushlight_par::num_threads() } else { 1 };
        Tiled::<F>::new(self.0, kernels, threads).run();
    }
}

/// The plan of a product by tiles.
struct Tiled<'a, F: Format> {
    p: &'a One<F::T>,
    kernels: &'static Kernels<F>,
    /// Columns of C in a panel, and panels.
    panel: usize,
    panels: usize,
    /// The first panel that is packed; those before it are read where they lie.
    packed_from: usize,
    /// Blocks of `k`, their length, and elements of one packed panel of one block.
    blocks: usize,
    k_block: usize,
    panel_len: usize,
    /// A is read where it lies, too.
    read_a: bool,
    /// The cut of C: tiles of rows, and panels in a tile.
    row_tiles: usize,
    tile_panels: usize,
    /// C holds the partial sums itself.
    in_place: bool,
}

impl<'a, F: Format> Tiled<'a, F> {
    fn new(p: &'a One<F::T>, kernels: &'static Kernels<F>, threads: usize) -> Self {
        let panel = 2 * kernels.width / F::SUMS_PER_COLUMN;
        let panels = p.n.div_ceil(panel);
        let rows = kernels.rows();
        let readable = F::IN_PLACE && p.b.col_stride == 1 && p.m <= 6 * rows;
        let (mut tile_rows, mut tile_panels) = (p.m.min(16 * rows), panels.min(4 * NEAR_PANELS));
        let count = |r: usize, c: usize| p.m.div_ceil(r) * panels.div_ceil(c);
        while threads > 1 && count(tile_rows, tile_panels) < 4 * threads {
            if p.work() / count(tile_rows, tile_panels) < 2 * TASK {
                break;
            } else if tile_rows > rows * tile_panels || (tile_panels == 1 && tile_rows > rows) {
                tile_rows = tile_rows.div_ceil(2);
            } else if tile_panels > 1 {
                tile_panels = tile_panels.div_ceil(2);
            } else {
                break;
            }
        }
        // Blocks are nearly equal, at places that depend on `k` alone.
        let blocks = p.k.div_ceil(F::K_BLOCK);
        let k_block = p.k.div_ceil(blocks.max(1)).next_multiple_of(8).min(F::K_BLOCK);
        let bytes = size_of::<F::Elem>();
        // A row distance that is a multiple of a page puts all rows of A on one cache set.
        let near_a = p.m * p.k * bytes <= SMALL_A && p.a.row_stride.unsigned_abs() * bytes % 4096 != 0;
        Tiled {
            p,
            read_a: F::IN_PLACE && p.a.col_stride == 1 && panels <= NEAR_PANELS / 2 && near_a,
            kernels,
            panel,
            panels,
            packed_from: if readable { p.n / panel } else { 0 },
            blocks,
            k_block,
            panel_len: F::steps(k_block) * 2 * kernels.width,
            row_tiles: p.m.div_ceil(tile_rows),
            tile_panels,
            in_place: F::T::SUMS_IN_PLACE && p.alpha == <F::T as GemmElement>::Sum::ONE && p.c_strides.1 == 1,
        }
    }

    fn run(&self) {
        // Panels are packed for all tasks in groups that fit SHARED; a tile of rows alone has nobody to share with.
        let group = SHARED / (self.blocks * self.panel_len * size_of::<F::Elem>()).max(1);
        let share = self.row_tiles > 1 && group >= self.tile_panels;
        let group = if share { group - group % self.tile_panels } else { self.panels };
        for first in (0..self.panels).step_by(group) {
            let panels = first..self.panels.min(first + group);
            let packed = panels.start.max(self.packed_from)..panels.end.max(self.packed_from);
            let packed = if share { packed } else { 0..0 };
            let scratch = Scratch::<F::Elem>::take(packed.len() * self.blocks * self.panel_len);
            let shared = Shared(scratch.ptr());
            let packings = packed.len() * self.blocks;
            let column_tiles = panels.len().div_ceil(self.tile_panels);
            let pack = |i: usize| {
                let (block, j) = (i / packed.len(), packed.start + i % packed.len());
                // SAFETY: the scratch has room for each panel of each block.
                unsafe { self.pack_panel(block, j, shared.at(i * self.panel_len)) }
            };
            let multiply = |i: usize| {
                let rows = part(self.p.m, self.row_tiles, i % self.row_tiles);
                let cols = part(panels.len(), column_tiles, i / self.row_tiles);
                let cols = panels.start + cols.start..panels.start + cols.end;
                // SAFETY: tiles are disjoint, and all panels are packed before the first tile is begun.
                unsafe { self.tile(rows, cols, share.then_some((&shared, packed.clone()))) }
            };
            two_phases(packings, pack, column_tiles * self.row_tiles, multiply, self.p.work());
        }
    }

    fn k_range(&self, block: usize) -> Range<usize> {
        part_at(self.p.k, self.k_block, block)
    }

    /// # Safety
    /// `dst` has room for a panel.
    unsafe fn pack_panel(&self, block: usize, j: usize, dst: *mut F::Elem) {
        let (ks, cols) = (self.k_range(block), part_at(self.p.n, self.panel, j));
        // SAFETY: the operand covers the block.
        unsafe { (self.kernels.pack_b)(&self.p.b.at(ks.start, cols.start), ks.len(), cols.len(), self.kernels.width, dst) }
    }

    /// Computes one tile of C.
    ///
    /// # Safety
    /// Nothing else uses the tile; `shared` holds the packed panels it names, of all blocks.
    unsafe fn tile(&self, rows: Range<usize>, panels: Range<usize>, shared: Option<(&Shared<F::Elem>, Range<usize>)>) {
        let (p, kernels) = (self.p, self.kernels);
        let first_col = panels.start * self.panel;
        let cols = p.n.min(panels.end * self.panel) - first_col;
        let own_packed = match shared {
            Some(_) => 0..0,
            None => panels.start.max(self.packed_from)..panels.end.max(self.packed_from),
        };
        let a_len = if self.read_a { 0 } else { rows.len() * a_stride::<F::Elem>() };
        let scratch = Scratch::<F::Elem>::take(a_len + own_packed.len() * self.panel_len);
        let (packed_a, own_b) = (scratch.ptr(), scratch.ptr().wrapping_add(a_len));
        let sums_stride = panels.len() * 2 * kernels.width;
        let sums = Scratch::<F::Acc>::take(if self.in_place { 0 } else { rows.len() * sums_stride });
        let (c, c_stride) = match self.in_place {
            true => (p.c_at(rows.start, first_col).cast::<F::Acc>(), p.c_strides.0 * F::SUMS_PER_COLUMN as isize),
            false => (sums.ptr(), sums_stride as isize),
        };
        let panels_of_a = rows.len().div_ceil(kernels.rows());
        // SAFETY: pointers stay in the operands, the scratch and this tile of C.
        unsafe {
            if self.in_place && p.addend.is_some() {
                (kernels.combine)(&p.combine(rows.start, first_col, rows.len(), cols, None));
            }
            for block in 0..self.blocks {
                let ks = self.k_range(block);
                let from = p.a.at(rows.start, ks.start);
                let (a, a_stride) = if self.read_a {
                    (from.ptr.cast::<F::Elem>(), from.row_stride)
                } else {
                    (kernels.pack_a)(&from, rows.len(), ks.len(), packed_a);
                    (packed_a.cast_const(), a_stride::<F::Elem>() as isize)
                };
                for j in own_packed.clone() {
                    self.pack_panel(block, j, own_b.add((j - own_packed.start) * self.panel_len));
                }
                let near = panels.clone().step_by(NEAR_PANELS).map(|j| j..panels.end.min(j + NEAR_PANELS));
                for (near, i) in near.flat_map(|near| (0..panels_of_a).map(move |i| (near.clone(), i))) {
                    let rs = part(rows.len(), panels_of_a, i);
                    for j in near {
                        let (b, b_stride) = if j < self.packed_from {
                            (p.b.at(ks.start, j * self.panel).ptr.cast::<F::Elem>(), p.b.row_stride)
                        } else {
                            let b = match &shared {
                                Some((all, packed)) => all.at((block * packed.len() + j - packed.start) * self.panel_len),
                                None => own_b.add((j - own_packed.start) * self.panel_len),
                            };
                            (b.cast_const(), 2 * kernels.width as isize)
                        };
                        let left = (cols - (j - panels.start) * self.panel) * F::SUMS_PER_COLUMN;
                        let vectors = left.div_ceil(kernels.width).min(2);
                        kernels.tiles[vectors - 1][rs.len() - 1](&Tile {
                            k: F::steps(ks.len()),
                            a: a.offset(rs.start as isize * a_stride),
                            a_stride,
                            b,
                            b_stride,
                            c: c.offset(rs.start as isize * c_stride).add((j - panels.start) * 2 * kernels.width),
                            c_stride,
                            cols: left.min(2 * kernels.width),
                            add: block > 0 || (self.in_place && p.addend.is_some()),
                        });
                    }
                }
            }
            if !self.in_place {
                let sums = (sums.ptr().cast_const().cast(), sums_stride / F::SUMS_PER_COLUMN);
                (kernels.combine)(&p.combine(rows.start, first_col, rows.len(), cols, Some(sums)));
            }
        }
    }
}
