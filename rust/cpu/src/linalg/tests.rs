//! Factorisations at the edge of what they accept: zero pivots, blocks of two, numbers that are not finite.

use super::*;

/// A row-major matrix in `list`.
fn matrix<T>(list: &mut [T], rows: usize, cols: usize) -> Matrices<T> {
    Matrices { ptr: list.as_mut_ptr(), rows, cols, row_stride: cols as isize, col_stride: 1, step: 0 }
}

fn per_matrix<T>(list: &mut [T]) -> PerMatrix<T> {
    PerMatrix { ptr: list.as_mut_ptr(), each: list.len() }
}

#[test]
fn a_zero_pivot_leaves_finite_factors() {
    let mut a = [0.0, 1.0, 0.0, 2.0];
    let (mut pivots, mut info) = ([0; 2], [0]);
    // SAFETY: the arrays have the stated sizes.
    unsafe { lu(1, matrix(&mut a, 2, 2), per_matrix(&mut pivots), per_matrix(&mut info)) }.unwrap();
    assert_eq!((a, pivots, info), ([0.0, 1.0, 0.0, 2.0], [1, 2], [1]));
}

#[test]
fn a_block_of_two_pivots_is_solved() {
    let mut a = [0.0, 9.0, 9.0, 2.0, 0.0, 9.0, 1.0, 1.0, 3.0];
    let (mut pivots, mut info, mut x) = ([0; 3], [0], [3.0, 5.0, 9.0]);
    // SAFETY: the arrays have the stated sizes.
    unsafe {
        ldl(1, matrix(&mut a, 3, 3), per_matrix(&mut pivots), per_matrix(&mut info), false).unwrap();
        ldl_solve(1, matrix(&mut a, 3, 3), per_matrix(&mut pivots), matrix(&mut x, 3, 1), false).unwrap();
    }
    // The matrix is [[0, 2, 1], [2, 0, 1], [1, 1, 3]].
    let product = [2.0 * x[1] + x[2], 2.0 * x[0] + x[2], x[0] + x[1] + 3.0 * x[2]];
    for (got, wanted) in product.iter().zip([3.0f64, 5.0, 9.0]) {
        assert!((got - wanted).abs() < 1e-12, "{product:?}");
    }
}

#[test]
fn what_is_not_finite_has_no_singular_values() {
    let mut a = [1.0, f64::NAN, 0.0, 2.0];
    let (mut s, mut info) = ([0.0; 2], [0]);
    // SAFETY: the arrays have the stated sizes.
    unsafe { svd(1, matrix(&mut a, 2, 2), per_matrix(&mut s), None, per_matrix(&mut info)) }.unwrap();
    assert_eq!(info, [-1]);
    a[1] = f64::INFINITY;
    // SAFETY: as above.
    unsafe { svd(1, matrix(&mut a, 2, 2), per_matrix(&mut s), None, per_matrix(&mut info)) }.unwrap();
    assert!(info == [0] && s.iter().all(|value| value.is_nan()), "{s:?}");
}
