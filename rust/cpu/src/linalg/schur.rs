//! Eigenvalues of small complex matrices by the QR algorithm with single shifts: the steps of LAPACK's `zgebal`,
//! `zgehd2`, `zlahqr` and `ztrevc` (E. Anderson et al., LAPACK Users' Guide, 1999), because the order in which
//! eigenvalues are found is the order in which torch returns them. Everything is computed in double precision.

use std::ops::{Index, IndexMut};

use faer::mat::MatMut;
use num_complex::Complex;
use rushlight_core::Result;
use rushlight_core::alloc::filled;

type C = Complex<f64>;

/// The greatest matrix to which LAPACK applies this algorithm; it divides greater ones.
pub const LARGEST: usize = 75;

const ULP: f64 = f64::EPSILON;
const ZERO: C = C::new(0.0, 0.0);
const ONE: C = C::new(1.0, 0.0);

/// A square matrix in row-major memory.
pub struct Square {
    pub n: usize,
    elements: Vec<C>,
}

impl Square {
    pub fn zeros(n: usize) -> Result<Square> {
        Ok(Square { n, elements: filled(ZERO, n * n)? })
    }

    pub fn columns(&mut self) -> MatMut<'_, C> {
        MatMut::from_row_major_slice_mut(&mut self.elements, self.n, self.n)
    }

    fn identity(n: usize) -> Result<Square> {
        let mut matrix = Square::zeros(n)?;
        (0..n).for_each(|i| matrix[(i, i)] = ONE);
        Ok(matrix)
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        (0..self.n).for_each(|j| self.elements.swap(a * self.n + j, b * self.n + j));
    }

    fn swap_columns(&mut self, a: usize, b: usize) {
        (0..self.n).for_each(|i| self.elements.swap(i * self.n + a, i * self.n + b));
    }

    fn scale_row(&mut self, row: usize, columns: std::ops::Range<usize>, factor: C) {
        columns.for_each(|j| self[(row, j)] *= factor);
    }

    fn scale_column(&mut self, column: usize, rows: std::ops::Range<usize>, factor: C) {
        rows.for_each(|i| self[(i, column)] *= factor);
    }
}

impl Index<(usize, usize)> for Square {
    type Output = C;
    #[inline(always)]
    fn index(&self, (i, j): (usize, usize)) -> &C {
        &self.elements[i * self.n + j]
    }
}

impl IndexMut<(usize, usize)> for Square {
    #[inline(always)]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut C {
        &mut self.elements[i * self.n + j]
    }
}

/// The eigenvalues, and the eigenvectors as columns if they are wanted; `None` if the iteration does not converge.
pub fn eigen(mut a: Square, wanted: bool) -> Result<Option<(Vec<C>, Option<Square>)>> {
    let n = a.n;
    let balance = Balance::of(&mut a)?;
    let mut vectors = if wanted { Some(Square::identity(n)?) } else { None };
    to_hessenberg(&mut a, balance.block(), vectors.as_mut())?;
    if !to_triangle(&mut a, balance.block(), vectors.as_mut()) {
        return Ok(None);
    }
    let mut values = filled(ZERO, n)?;
    values.iter_mut().enumerate().for_each(|(i, value)| *value = a[(i, i)]);
    let Some(turned) = vectors else { return Ok(Some((values, None))) };
    let mut vectors = of_triangle(&a, &turned)?;
    balance.undo(&mut vectors);
    Ok(Some((values, Some(vectors))))
}

/// The sum of the magnitudes of both parts.
fn size(z: C) -> f64 {
    z.re.abs() + z.im.abs()
}

/// Permutations that isolate eigenvalues, and powers of two that make rows and columns similar in size.
struct Balance {
    low: usize,
    high: usize,
    /// Inside the block the factor of each row, outside the row that was exchanged with it.
    scale: Vec<f64>,
}

impl Balance {
    fn of(a: &mut Square) -> Result<Balance> {
        let n = a.n;
        let mut balance = Balance { low: 0, high: n.saturating_sub(1), scale: filled(1.0, n)? };
        if n > 0 {
            balance.isolate(a);
            balance.equalise(a);
        }
        Ok(balance)
    }

    /// The first and the last row of the block that has not been isolated.
    fn block(&self) -> (usize, usize) {
        (self.low, self.high)
    }

    fn exchange(&mut self, a: &mut Square, from: usize, to: usize) {
        self.scale[to] = from as f64;
        a.swap_columns(from, to);
        a.swap_rows(from, to);
    }

    /// Moves rows with a diagonal element alone to the end, and such columns to the beginning.
    fn isolate(&mut self, a: &mut Square) {
        let alone = |a: &Square, i: usize, low: usize, high: usize, row: bool| {
            (low..=high).all(|j| i == j || a[if row { (i, j) } else { (j, i) }] == ZERO)
        };
        while let Some(row) = (0..=self.high).rev().find(|&i| alone(a, i, 0, self.high, true)) {
            self.exchange(a, row, self.high);
            if self.high == 0 {
                return;
            }
            self.high -= 1;
        }
        while let Some(column) = (self.low..=self.high).find(|&j| alone(a, j, self.low, self.high, false)) {
            self.exchange(a, column, self.low);
            self.low += 1;
        }
    }

    fn equalise(&mut self, a: &mut Square) {
        let (low, high, n) = (self.low, self.high, a.n);
        let least = f64::MIN_POSITIVE / ULP;
        let (least, greatest) = (2.0 * least, 1.0 / (2.0 * least));
        let mut again = true;
        while again {
            again = false;
            for i in low..=high {
                let norm = |part: &dyn Fn(usize) -> C| (low..=high).fold(0.0, |sum: f64, j| sum.hypot(part(j).norm()));
                let (mut c, mut r) = (norm(&|j| a[(j, i)]), norm(&|j| a[(i, j)]));
                let mut ca = (0..=high).fold(0.0, |most: f64, j| most.max(a[(j, i)].norm()));
                let mut ra = (low..n).fold(0.0, |most: f64, j| most.max(a[(i, j)].norm()));
                if c == 0.0 || r == 0.0 {
                    continue;
                }
                let (sum, mut f) = (c + r, 1.0f64);
                while c < r / 2.0 && f.max(c).max(ca) < greatest && r.min(r / 2.0).min(ra) > least {
                    (f, c, ca, r, ra) = (f * 2.0, c * 2.0, ca * 2.0, r / 2.0, ra / 2.0);
                }
                while c / 2.0 >= r && r.max(ra) < greatest && f.min(c / 2.0).min(ca) > least {
                    (f, c, ca, r, ra) = (f / 2.0, c / 2.0, ca / 2.0, r * 2.0, ra * 2.0);
                }
                let own = self.scale[i];
                let lost =
                    f < 1.0 && own < 1.0 && f * own <= least / 2.0 || f > 1.0 && own > 1.0 && own >= greatest * 2.0 / f;
                if c + r >= 0.95 * sum || lost {
                    continue;
                }
                self.scale[i] *= f;
                again = true;
                a.scale_row(i, low..n, (1.0 / f).into());
                a.scale_column(i, 0..high + 1, f.into());
            }
        }
    }

    /// The eigenvectors of the matrix before it was balanced.
    fn undo(&self, vectors: &mut Square) {
        let n = vectors.n;
        if n == 0 {
            return;
        }
        if self.high > self.low {
            (self.low..=self.high).for_each(|i| vectors.scale_row(i, 0..n, self.scale[i].into()));
        }
        for i in (0..self.low).rev().chain(self.high + 1..n) {
            vectors.swap_rows(i, self.scale[i] as usize);
        }
    }
}

/// A reflection `1 - factor * v v^H`, with `v[0] = 1`, whose adjoint maps `x` to a multiple of the first unit vector.
/// Overwrites the rest of `x` by that of `v`; returns the factor and the multiple.
fn reflection(first: C, rest: &mut [C]) -> (C, C) {
    let norm = rest.iter().fold(0.0, |sum: f64, z| sum.hypot(z.norm()));
    if norm == 0.0 && first.im == 0.0 {
        return (ZERO, first);
    }
    let length = first.re.hypot(first.im).hypot(norm);
    let beta = if first.re >= 0.0 { -length } else { length };
    let factor = C::new((beta - first.re) / beta, -first.im / beta);
    let inverse = ONE / (first - beta);
    rest.iter_mut().for_each(|z| *z *= inverse);
    (factor, beta.into())
}

/// Zeros below the first subdiagonal, by reflections that `turned` accumulates.
fn to_hessenberg(a: &mut Square, (low, high): (usize, usize), mut turned: Option<&mut Square>) -> Result<()> {
    let n = a.n;
    for k in low..high.saturating_sub(1) {
        let mut v = filled(ZERO, high - k)?;
        v.iter_mut().enumerate().for_each(|(i, z)| *z = a[(k + 1 + i, k)]);
        let (factor, first) = reflection(v[0], &mut v[1..]);
        v[0] = ONE;
        let from_right = |matrix: &mut Square, rows: usize| {
            for i in 0..rows {
                let sum: C = v.iter().enumerate().map(|(j, z)| matrix[(i, k + 1 + j)] * z).sum();
                v.iter().enumerate().for_each(|(j, z)| matrix[(i, k + 1 + j)] -= factor * sum * z.conj());
            }
        };
        from_right(a, high + 1);
        if let Some(turned) = turned.as_deref_mut() {
            from_right(turned, n);
        }
        for j in k + 1..n {
            let sum: C = v.iter().enumerate().map(|(i, z)| z.conj() * a[(k + 1 + i, j)]).sum();
            v.iter().enumerate().for_each(|(i, z)| a[(k + 1 + i, j)] -= factor.conj() * sum * z);
        }
        a[(k + 1, k)] = first;
        (k + 2..=high).for_each(|i| a[(i, k)] = ZERO);
    }
    Ok(())
}

/// Multiplies row `i` right of the diagonal by a number of magnitude one and the column above it, and that of `turned`,
/// by its conjugate.
fn turn(h: &mut Square, turned: &mut Option<&mut Square>, i: usize, by: C) {
    let n = h.n;
    h.scale_row(i, i + 1..n, by);
    h.scale_column(i, 0..i, by.conj());
    if let Some(turned) = turned {
        turned.scale_column(i, 0..n, by.conj());
    }
}

/// The triangle that is similar to a Hessenberg matrix; whether the iteration converged.
fn to_triangle(h: &mut Square, (low, high): (usize, usize), mut turned: Option<&mut Square>) -> bool {
    let n = h.n;
    if low >= high {
        return true;
    }
    for i in low + 1..=high {
        let below = h[(i, i - 1)];
        if below.im != 0.0 {
            let by = (below / size(below)).conj();
            let by = by / by.norm();
            h[(i, i - 1)] = below.norm().into();
            h.scale_row(i, i..n, by);
            h.scale_column(i, 0..(i + 2).min(high + 1), by.conj());
            if let Some(turned) = &mut turned {
                turned.scale_column(i, 0..n, by.conj());
            }
        }
    }
    let small = f64::MIN_POSITIVE * ((high - low + 1) as f64 / ULP);
    // The rows from `low` to `end`, exclusive, are not triangular yet.
    let mut end = high + 1;
    while end > low {
        let i = end - 1;
        let mut found = false;
        for round in 1..=30 * (high - low + 1).max(10) {
            let first = (low + 1..=i).rev().find(|&k| is_negligible(h, k, (low, high), small)).unwrap_or(low);
            if first > low {
                h[(first, first - 1)] = ZERO;
            }
            if first == i {
                end = i;
                found = true;
                break;
            }
            let nearest = shift(h, (first, i), round);
            sweep(h, &mut turned, (first, i), nearest);
        }
        if !found {
            return false;
        }
    }
    true
}

/// Whether the element of row `k` below the diagonal may be replaced by zero (criterion of Ahues and Tisseur).
fn is_negligible(h: &Square, k: usize, (low, high): (usize, usize), small: f64) -> bool {
    let below = h[(k, k - 1)];
    if size(below) <= small {
        return true;
    }
    let (above, own, before) = (h[(k - 1, k)], h[(k, k)], h[(k - 1, k - 1)]);
    let mut scale = size(before) + size(own);
    if scale == 0.0 {
        if k >= low + 2 {
            scale += h[(k - 1, k - 2)].re.abs();
        }
        if k < high {
            scale += h[(k + 1, k)].re.abs();
        }
    }
    if below.re.abs() > ULP * scale {
        return false;
    }
    let (ab, ba) = (size(below).max(size(above)), size(below).min(size(above)));
    let (aa, bb) = (size(own).max(size(before - own)), size(own).min(size(before - own)));
    let sum = aa + ab;
    ba * (ab / sum) <= small.max(ULP * (bb * (aa / sum)))
}

/// Wilkinson's shift, the eigenvalue of the last two rows nearest to the last element; another one after many rounds.
fn shift(h: &Square, (first, i): (usize, usize), round: usize) -> C {
    if round.is_multiple_of(20) {
        return h[(i, i)] + 0.75 * h[(i, i - 1)].re.abs();
    }
    if round.is_multiple_of(10) {
        return h[(first, first)] + 0.75 * h[(first + 1, first)].re.abs();
    }
    let last = h[(i, i)];
    let u = h[(i - 1, i)].sqrt() * h[(i, i - 1)].sqrt();
    if u == ZERO {
        return last;
    }
    let x = 0.5 * (h[(i - 1, i - 1)] - last);
    let sx = size(x);
    let s = size(u).max(sx);
    let mut y = s * ((x / s) * (x / s) + (u / s) * (u / s)).sqrt();
    if sx > 0.0 && (x.re / sx) * y.re + (x.im / sx) * y.im < 0.0 {
        y = -y;
    }
    last - u * (u / (x + y))
}

/// One QR step of the rows from `first` to `i`.
fn sweep(h: &mut Square, turned: &mut Option<&mut Square>, (first, i): (usize, usize), shift: C) {
    let n = h.n;
    let start = |h: &Square, m: usize| {
        let (gap, below) = (h[(m, m)] - shift, h[(m + 1, m)].re);
        let scale = size(gap) + below.abs();
        (gap / scale, below / scale)
    };
    // The step begins where two elements below the diagonal are small together.
    let begins = |&m: &usize| {
        let (gap, below) = start(h, m);
        let others = size(h[(m, m)]) + size(h[(m + 1, m + 1)]);
        h[(m, m - 1)].re.abs() * below.abs() <= ULP * (size(gap) * others)
    };
    let m = (first + 1..i).rev().find(begins).unwrap_or(first);
    for k in m..i {
        let (x, y) = if k > m {
            (h[(k, k - 1)], h[(k + 1, k - 1)])
        } else {
            let (x, y) = start(h, m);
            (x, y.into())
        };
        let mut rest = [y];
        let (t1, length) = reflection(x, &mut rest);
        if k > m {
            h[(k, k - 1)] = length;
            h[(k + 1, k - 1)] = ZERO;
        }
        let v = rest[0];
        let t2 = (t1 * v).re;
        for j in k..n {
            let sum = t1.conj() * h[(k, j)] + t2 * h[(k + 1, j)];
            h[(k, j)] -= sum;
            h[(k + 1, j)] -= sum * v;
        }
        let from_right = |matrix: &mut Square, rows: usize| {
            for j in 0..rows {
                let sum = t1 * matrix[(j, k)] + t2 * matrix[(j, k + 1)];
                matrix[(j, k)] -= sum;
                matrix[(j, k + 1)] -= sum * v.conj();
            }
        };
        from_right(h, (k + 2).min(i) + 1);
        if let Some(turned) = turned {
            from_right(turned, n);
        }
        if k == m && m > first {
            // The element before the first row of the step is multiplied by a number that is made real again.
            let by = ONE - t1;
            let by = by / by.norm();
            h[(m + 1, m)] *= by.conj();
            if m + 2 <= i {
                h[(m + 2, m + 1)] *= by;
            }
            for j in (m..=i).filter(|&j| j != m + 1) {
                turn(h, turned, j, by);
            }
        }
    }
    let below = h[(i, i - 1)];
    if below.im != 0.0 {
        h[(i, i - 1)] = below.norm().into();
        turn(h, turned, i, (below / below.norm()).conj());
    }
}

/// The eigenvectors of a triangle, by substitution, turned back.
fn of_triangle(t: &Square, turned: &Square) -> Result<Square> {
    let n = t.n;
    let small = f64::MIN_POSITIVE * (n as f64 / ULP);
    let mut vectors = Square::zeros(n)?;
    let mut x = filled(ZERO, n)?;
    for k in 0..n {
        let own = t[(k, k)];
        let least = (ULP * size(own)).max(small);
        x[k] = ONE;
        (0..k).for_each(|i| x[i] = -t[(i, k)]);
        for j in (0..k).rev() {
            let gap = t[(j, j)] - own;
            x[j] /= if size(gap) < least { C::from(least) } else { gap };
            // Large elements are scaled down, so that none overflows.
            let most = size(x[j]);
            if most > 1e100 {
                x[..=k].iter_mut().for_each(|z| *z /= most);
            }
            for i in 0..j {
                let product = t[(i, j)] * x[j];
                x[i] -= product;
            }
        }
        for i in 0..n {
            vectors[(i, k)] = (0..=k).map(|j| turned[(i, j)] * x[j]).sum();
        }
    }
    Ok(vectors)
}
