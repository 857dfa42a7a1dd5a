//! Small dense linear algebra: inverses of symmetric matrices and their determinants, by Cholesky's factors.

/// Pivots below this share of their diagonal entry count as zero.
const SINGULAR: f64 = 1e-9;

/// The inverse of a symmetric positive definite matrix, row by row, and the logarithm of the matrix's determinant. `None` if it is singular.
pub(super) fn inverse(matrix: &[f64], size: usize) -> Option<(Vec<f64>, f64)> {
    let mut lower = vec![0.0; size * size];
    let mut log_determinant = 0.0;
    for row in 0..size {
        for column in 0..=row {
            let product: f64 = (0..column).map(|at| lower[row * size + at] * lower[column * size + at]).sum();
            let rest = matrix[row * size + column] - product;
            if row > column {
                lower[row * size + column] = rest / lower[column * size + column];
            } else if rest > SINGULAR * matrix[row * size + row] {
                lower[row * size + row] = rest.sqrt();
                log_determinant += rest.ln();
            } else {
                return None;
            }
        }
    }
    // The inverse of the factor, and then that of the matrix.
    let mut factor = vec![0.0; size * size];
    for column in 0..size {
        for row in column..size {
            let unit = if row == column { 1.0 } else { 0.0 };
            let product: f64 = (column..row).map(|at| lower[row * size + at] * factor[at * size + column]).sum();
            factor[row * size + column] = (unit - product) / lower[row * size + row];
        }
    }
    let mut inverse = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..=row {
            let sum: f64 = (row..size).map(|at| factor[at * size + row] * factor[at * size + column]).sum();
            inverse[row * size + column] = sum;
            inverse[column * size + row] = sum;
        }
    }
    Some((inverse, log_determinant))
}

/// The product of a square matrix and a vector.
pub(super) fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(vector.len()).map(|row| dot(row, vector)).collect()
}

pub(super) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// The sum of the products of rows with themselves: the information of a design.
pub(super) fn information(rows: &[Vec<f64>], width: usize) -> Vec<f64> {
    let mut sum = vec![0.0; width * width];
    for row in rows {
        for (place, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            for (entry, other) in sum[place * width..(place + 1) * width].iter_mut().zip(row) {
                *entry += value * other;
            }
        }
    }
    sum
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_times_its_matrix_is_one_and_a_singular_matrix_has_none() {
        let matrix = [4.0, 2.0, 0.4, 2.0, 5.0, 1.0, 0.4, 1.0, 3.0];
        let (inverse, log_determinant) = inverse(&matrix, 3).unwrap();
        for column in 0..3 {
            let vector: Vec<f64> = (0..3).map(|row| inverse[row * 3 + column]).collect();
            for (row, value) in times(&matrix, &vector).into_iter().enumerate() {
                assert!((value - f64::from(u8::from(row == column))).abs() < 1e-12);
            }
        }
        // 4 (15 − 1) − 2 (6 − 0.4) + 0.4 (2 − 2)
        assert!((log_determinant - 44.8_f64.ln()).abs() < 1e-12);
        assert!(super::inverse(&[1.0, 1.0, 1.0, 1.0], 2).is_none());
    }
}
