//! The arguments of calls of `cusolver`, and what the calls compute.

use std::ffi::c_int;

use crate::dtype::{DType, Number};
use crate::factors::{Dense, Place};

/// A matrix as calls describe it; `None` if a number is negative or the dtype has no such call.
pub fn place(at: usize, rows: i64, columns: i64, leading: i64, data: c_int) -> Option<Place> {
    let size = |number: i64| usize::try_from(number).ok();
    let data = DType::of(data as u32).filter(|data| !matches!(data, DType::R16 | DType::B16))?;
    Some(Place { at, rows: size(rows)?, columns: size(columns)?, leading: size(leading)?, data })
}

/// Matrices by columns of one size, whose addresses are in a list on the device.
#[derive(Clone, Copy)]
pub struct Batch {
    list: usize,
    count: usize,
    /// One of them, without its address.
    one: Place,
}

impl Batch {
    pub fn of(list: usize, [rows, columns, leading, count]: [c_int; 4], data: DType) -> Option<Batch> {
        let one = place(0, rows.into(), columns.into(), leading.into(), data.code() as c_int)?;
        one.range()?;
        let count = usize::try_from(count).ok().filter(|&count| count > 0)?;
        list.is_multiple_of(8).then_some(Batch { list, count, one })
    }

    pub fn range(&self) -> (usize, u64) {
        (self.list, 8 * self.count as u64)
    }

    /// # Safety
    /// The list lies in memory.
    pub unsafe fn get(&self, n: usize) -> Place {
        // SAFETY: guaranteed by the caller.
        Place { at: unsafe { *std::ptr::with_exposed_provenance::<usize>(self.list).add(n) }, ..self.one }
    }

    /// # Safety
    /// The list and the matrices lie in memory.
    pub unsafe fn each(&self, run: impl Fn(usize, Place)) {
        // SAFETY: guaranteed by the caller.
        (0..self.count).for_each(|n| run(n, unsafe { self.get(n) }));
    }
}

/// Replaces a triangle by the Cholesky factor; returns its code.
///
/// # Safety
/// The matrix lies in memory.
pub unsafe fn factorise(a: Place, upper: bool) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut matrix = if upper { a.load().adjoint() } else { a.load() };
        let code = matrix.cholesky();
        let matrix = if upper { matrix.adjoint() } else { matrix };
        a.store(&matrix, |row, column| if upper { row <= column } else { row >= column });
        code
    }
}

/// `cusolverDn<t>ormqr`.
#[derive(Clone, Copy)]
pub struct Reflected {
    left: bool,
    adjoint: bool,
    pub a: Place,
    pub tau: Place,
    pub c: Place,
}

impl Reflected {
    pub fn of(
        [side, turned]: [c_int; 2],
        [rows, columns, steps]: [c_int; 3],
        a: (usize, c_int),
        tau: usize,
        c: (usize, c_int),
        data: DType,
    ) -> Option<Reflected> {
        let height = if side == 0 { rows } else { columns };
        let own = |at: usize, rows: c_int, columns: c_int, leading: c_int| {
            let place = place(at, rows.into(), columns.into(), leading.into(), data.code() as c_int)?;
            place.range().map(|_| place)
        };
        let adjoint = if data.is_complex() { 2 } else { 1 };
        if !(0..=1).contains(&side) || (turned != 0 && turned != adjoint) || steps > height {
            return None;
        }
        Some(Reflected {
            left: side == 0,
            adjoint: turned != 0,
            a: own(a.0, height, steps, a.1)?,
            tau: own(tau, steps, 1, steps)?,
            c: own(c.0, rows, columns, c.1)?,
        })
    }

    /// # Safety
    /// The matrices lie in memory.
    pub unsafe fn run(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (a, tau, c) = (self.a.load(), self.tau.load(), self.c.load());
            let factors: Vec<Number> = (0..tau.rows).map(|step| tau.get(step, 0)).collect();
            let mut c = if self.left { c } else { c.adjoint() };
            a.apply(&factors, &mut c, self.adjoint == self.left);
            self.c.store(&if self.left { c } else { c.adjoint() }, |_, _| true);
        }
    }
}

/// `cusolverDn<t>gesvdj`.
#[derive(Clone, Copy)]
pub struct Decomposed {
    vectors: bool,
    pub a: Place,
    pub s: Place,
    pub u: Place,
    pub v: Place,
}

impl Decomposed {
    pub fn of(
        [vectors, economic]: [c_int; 2],
        [rows, columns]: [c_int; 2],
        [a, s, u, v]: [(usize, c_int); 4],
        data: DType,
    ) -> Option<Decomposed> {
        if ![vectors, economic].iter().all(|flag| (0..=1).contains(flag)) {
            return None;
        }
        let short = rows.min(columns);
        let own = |(at, leading): (usize, c_int), rows: c_int, columns: c_int, data: DType| {
            let place = place(at, rows.into(), columns.into(), leading.into(), data.code() as c_int)?;
            place.range().map(|_| place)
        };
        let count = |all: c_int| if economic == 1 { short } else { all };
        Some(Decomposed {
            vectors: vectors == 1,
            a: own(a, rows, columns, data)?,
            s: own((s.0, short), short, 1, data.real())?,
            u: own(u, rows, count(rows), data)?,
            v: own(v, columns, count(columns), data)?,
        })
    }

    /// # Safety
    /// The matrices lie in memory.
    pub unsafe fn run(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = self.a.load();
            let (u, s, v) = a.singular();
            self.a.store(&Dense::of(a.rows, a.columns, |_, _| [f64::NAN; 2]), |_, _| true);
            self.s.store(&Dense::of(s.len(), 1, |row, _| [s[row], 0.0]), |_, _| true);
            if self.vectors {
                self.u.store(&u, |_, _| true);
                self.v.store(&v, |_, _| true);
            }
        }
    }
}

/// Whether flags are 0 or 1, and the factor is one.
///
/// # Safety
/// `factor` is the address of a number of the dtype.
pub unsafe fn are_known(flags: &[c_int], factor: *const u8, data: DType) -> bool {
    // SAFETY: guaranteed by the caller.
    let one = unsafe { data.load(factor.expose_provenance()) } == [1.0, 0.0];
    one && flags.iter().all(|flag| (0..=1).contains(flag))
}

/// Solves a triangular system.
///
/// # Safety
/// The matrices lie in memory.
pub unsafe fn solve([side, upper, transposed, unit]: [c_int; 4], a: Place, b: Place) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (mut triangle, mut sides) = (a.load(), b.load());
        let mut upper = upper == 1;
        if transposed == 1 {
            (triangle, upper) = (triangle.transposed(), !upper);
        }
        if side == 1 {
            (triangle, sides, upper) = (triangle.transposed(), sides.transposed(), !upper);
        }
        triangle.solve(&mut sides, upper, unit == 1);
        let sides = if side == 1 { sides.transposed() } else { sides };
        b.store(&sides, |_, _| true);
    }
}
