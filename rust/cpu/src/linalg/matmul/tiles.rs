//! A product by tiles of C, each computed by one task.
//!
//! For each block of `k` a task packs its panels of B, and then, some rows at a time, its rows of A, and multiplies
//! them. Tasks share nothing: packing the same panel in two tasks costs less than fetching it from the other core's
//! cache. Small operands are read in place. The division of C may depend on the number of threads, because the sum of
//! one element does not depend on the position of its tile.

use super::element::{Format, GemmElement, Job, Kernels, Sum, Tile};
use super::gemm::{Gemm, TASK, part, part_at, tasks, threads_for};
use super::kernel::a_stride;
use super::scratch::Scratch;
use std::ops::Range;

use rushlight_core::Result;

/// Panels of rows and of columns in the largest tile: enough to amortise the packing.
const TILE_ROWS: usize = 128;
const TILE_PANELS: usize = 64;
/// Panels that are multiplied before the next ones: with a block of `k`, they fill the second-level cache.
const NEAR_ROWS: usize = 16;
const NEAR_PANELS: usize = 16;
/// Products of at least this many multiplications are divided into two tasks per thread: more would pack more. Smaller
/// ones, whose tasks pack little, are divided into four, which balances the load.
const LARGE: usize = 1 << 23;
/// The most panels of rows that do not amortise the packing of a B which can be read in place.
const FEW_ROWS: usize = 6;
/// The size up to which A is read in place, if there are few panels of B to amortise its packing.
const SMALL_A: usize = 256 << 10;
/// Bytes of a page: rows at a distance of whole pages map to one set of the first-level cache.
const PAGE: usize = 4096;

/// A product by tiles.
struct Tiled<'a, F: Format> {
    p: &'a Gemm<F::T>,
    kernels: &'static Kernels<F>,
    /// Columns of C in a panel, and the number of panels.
    panel: usize,
    panels: usize,
    /// The first panel that is packed; those before it are read in place.
    packed_from: usize,
    /// Whether A is read in place.
    read_a: bool,
    /// The number of blocks of `k`, their length, and the elements of one packed panel.
    blocks: usize,
    k_block: usize,
    panel_len: usize,
    /// The division of C into tiles.
    row_tiles: usize,
    column_tiles: usize,
    /// Whether C holds the partial sums itself.
    in_place: bool,
}

pub struct WithTiles<'a, T: GemmElement>(pub &'a Gemm<T>);

impl<T: GemmElement> Job<T> for WithTiles<'_, T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) -> Result<()> {
        let p = self.0;
        let threads = threads_for(p.work());
        let tiled = Tiled::<F>::new(p, kernels, threads);
        tasks(tiled.row_tiles * tiled.column_tiles, p.work(), |i| {
            let rows = part(p.m, tiled.row_tiles, i % tiled.row_tiles);
            let panels = part(tiled.panels, tiled.column_tiles, i / tiled.row_tiles);
            // SAFETY: `Gemm::run`'s contract covers the operands, and the tiles are disjoint.
            unsafe { tiled.tile(rows, panels) }
        })
    }
}

impl<'a, F: Format> Tiled<'a, F> {
    fn new(p: &'a Gemm<F::T>, kernels: &'static Kernels<F>, threads: usize) -> Self {
        let panel = 2 * kernels.width / F::SUMS_PER_COLUMN;
        let panels = p.n.div_ceil(panel);
        let rows = kernels.rows();
        // Blocks are nearly equal, and their boundaries depend on `k` alone.
        let blocks = p.k.div_ceil(F::K_BLOCK);
        let k_block = p.k.div_ceil(blocks.max(1)).next_multiple_of(8).min(F::K_BLOCK);
        let bytes = size_of::<F::Elem>();
        let near_a = p.m * p.k * bytes <= SMALL_A && p.a.row_stride.unsigned_abs() * bytes % PAGE != 0;
        let read_b = F::IN_PLACE && p.b.col_stride == 1 && p.m <= FEW_ROWS * rows;
        let read_a = F::IN_PLACE && p.a.col_stride == 1 && panels <= NEAR_PANELS / 2 && near_a;
        let (row_tiles, column_tiles) = cut(p.m.div_ceil(rows), panels, p.work(), threads, read_a);
        Tiled {
            p,
            kernels,
            panel,
            panels,
            // A last panel of one whole vector is read in place too.
            packed_from: match read_b {
                true if p.n.is_multiple_of(kernels.width) => panels,
                true => p.n / panel,
                false => 0,
            },
            read_a,
            blocks,
            k_block,
            panel_len: F::steps(k_block) * 2 * kernels.width,
            row_tiles,
            column_tiles,
            in_place: F::T::SUMS_IN_PLACE && p.alpha == <F::T as GemmElement>::Sum::ONE && p.c_strides.1 == 1,
        }
    }

    /// Computes one tile of C.
    ///
    /// # Safety
    /// No other code accesses the tile.
    unsafe fn tile(&self, rows: Range<usize>, panels: Range<usize>) -> Result<()> {
        let (p, kernels) = (self.p, self.kernels);
        let width = 2 * kernels.width;
        let first_col = panels.start * self.panel;
        let cols = p.n.min(panels.end * self.panel) - first_col;
        let packed = panels.start.max(self.packed_from)..panels.end.max(self.packed_from);
        let parts = rows.len().div_ceil(NEAR_ROWS * kernels.rows());
        let a_len = if self.read_a { 0 } else { rows.len().div_ceil(parts) * a_stride::<F::Elem>() };
        let scratch = Scratch::<F::Elem>::take(packed.len() * self.panel_len + a_len)?;
        let (packed_b, packed_a) = (scratch.ptr(), scratch.ptr().wrapping_add(packed.len() * self.panel_len));
        let sums_stride = panels.len() * width;
        let sums = Scratch::<F::Acc>::take(if self.in_place { 0 } else { rows.len() * sums_stride })?;
        let (c, c_stride) = match self.in_place {
            true => (p.c_at(rows.start, first_col).cast::<F::Acc>(), p.c_strides.0 * F::SUMS_PER_COLUMN as isize),
            false => (sums.ptr(), sums_stride as isize),
        };
        // C may already hold the addend.
        let held = p.addend.is_some_and(|(beta, d)| {
            beta == <F::T as GemmElement>::Sum::ONE
                && (d.ptr, d.row_stride, d.col_stride) == (p.c.cast_const(), p.c_strides.0, p.c_strides.1)
        });
        let added = self.in_place && p.addend.is_some();
        // SAFETY: pointers stay in the operands, the scratch and this tile of C.
        unsafe {
            if added && !held {
                (kernels.combine)(&p.combine(rows.start, first_col, rows.len(), cols, None));
            }
            for block in 0..self.blocks {
                let ks = part_at(p.k, self.k_block, block);
                for j in packed.clone() {
                    let (js, to) = (part_at(p.n, self.panel, j), packed_b.add((j - packed.start) * self.panel_len));
                    (kernels.pack_b)(&p.b.at(ks.start, js.start), ks.len(), js.len(), kernels.width, to);
                }
                for rows_at_once in (0..parts).map(|i| part(rows.len(), parts, i)) {
                    let from = p.a.at(rows.start + rows_at_once.start, ks.start);
                    let (a, a_stride) = if self.read_a {
                        (from.ptr.cast::<F::Elem>(), from.row_stride)
                    } else {
                        (kernels.pack_a)(&from, rows_at_once.len(), ks.len(), packed_a);
                        (packed_a.cast_const(), a_stride::<F::Elem>() as isize)
                    };
                    let panels_of_a = rows_at_once.len().div_ceil(kernels.rows());
                    let near = panels.clone().step_by(NEAR_PANELS).map(|j| j..panels.end.min(j + NEAR_PANELS));
                    for (near, i) in near.flat_map(|near| (0..panels_of_a).map(move |i| (near.clone(), i))) {
                        let rs = part(rows_at_once.len(), panels_of_a, i);
                        let c = c.offset((rows_at_once.start + rs.start) as isize * c_stride);
                        for j in near {
                            let (b, b_stride) = if j < self.packed_from {
                                (p.b.at(ks.start, j * self.panel).ptr.cast::<F::Elem>(), p.b.row_stride)
                            } else {
                                (packed_b.add((j - packed.start) * self.panel_len).cast_const(), width as isize)
                            };
                            let left = (cols - (j - panels.start) * self.panel) * F::SUMS_PER_COLUMN;
                            let vectors = left.div_ceil(kernels.width).min(2);
                            kernels.tiles[vectors - 1][rs.len() - 1](&Tile {
                                k: F::steps(ks.len()),
                                a: a.offset(rs.start as isize * a_stride),
                                a_stride,
                                b,
                                b_stride,
                                c: c.add((j - panels.start) * width),
                                c_stride,
                                cols: left.min(width),
                                add: block > 0 || added,
                            });
                        }
                    }
                }
            }
            if !self.in_place {
                let sums = (sums.ptr().cast_const().cast(), sums_stride / F::SUMS_PER_COLUMN);
                (kernels.combine)(&p.combine(rows.start, first_col, rows.len(), cols, Some(sums)));
            }
        }
        Ok(())
    }
}

/// The number of tiles of C, vertically and horizontally, given its panels of rows and of columns. Nearly square tiles
/// need the least packing; but if A is not packed, columns are divided, so that each panel of B is packed by one task.
fn cut(row_panels: usize, panels: usize, work: usize, threads: usize, read_a: bool) -> (usize, usize) {
    let (mut down, mut across) = (row_panels.div_ceil(TILE_ROWS), panels.div_ceil(TILE_PANELS));
    let each = if work < LARGE { 4 } else { 2 };
    let enough = if threads == 1 { 1 } else { (each * threads).min(work / TASK) };
    while down * across < enough {
        let wide = read_a || 2 * panels.div_ceil(across) >= row_panels.div_ceil(down);
        if across < panels && (wide || down == row_panels) {
            across = (2 * across).min(panels);
        } else if down < row_panels {
            down = (2 * down).min(row_panels);
        } else {
            break;
        }
    }
    (down, across)
}
