//! Parity of a raidz: one to three parity columns over data columns, in GF(2^8).
//!
//! **Owns** the arithmetic: computation of parity, reconstruction of missing columns, and the search for columns that lie.
//! **Called by** raidz vdevs (decision 0152), its tests and its bench. **Invariants**: any columns
//! up to the number of parity columns can be reconstructed from the others; nothing waits or allocates by contents. Parity `k`
//! of data columns `d0, d1, …` is the sum of `2^(k·i) · d(i)` with the polynomial `x^8 + x^4 + x^3 + x^2 + 1`.
//! `docs/decisions/0151`.

/// Most parity columns.
pub const PARITY_MAX: usize = 3;
/// Low bits of the field's polynomial.
const POLYNOMIAL: u8 = 0x1d;
/// Bytes of each column in one step. The sums of three parity columns stay in vector registers.
const CHUNK: usize = 64;

type Chunk = [u8; CHUNK];

/// Twice a byte. Compiles to vector instructions in loops over a chunk.
#[inline]
fn double(x: u8) -> u8 {
    let carry = if x >= 0x80 { POLYNOMIAL } else { 0 };
    (x << 1) ^ carry
}

/// `sums[k] = sums[k] · 2^k + data`, for each byte. Applied from the last data column to the first, this is Horner's rule.
#[inline]
fn step<const P: usize>(sums: &mut [Chunk; P], data: &Chunk) {
    for (k, sum) in sums.iter_mut().enumerate() {
        for (sum, data) in sum.iter_mut().zip(data) {
            let mut raised = *sum;
            for _ in 0..k {
                raised = double(raised);
            }
            *sum = raised ^ data;
        }
    }
}

fn compute_with<const P: usize>(data: &[&[u8]], parity: &mut [&mut [u8]]) {
    let len = parity[0].len();
    let mut at = 0;
    while at + CHUNK <= len {
        let mut sums = [[0; CHUNK]; P];
        for column in data.iter().rev() {
            let bytes = column[at..]
                .first_chunk()
                .expect("columns are equally long");
            step(&mut sums, bytes);
        }
        for (sum, column) in sums.iter().zip(parity.iter_mut()) {
            column[at..at + CHUNK].copy_from_slice(sum);
        }
        at += CHUNK;
    }
    if at < len {
        compute_end::<P>(data, parity, at);
    }
}

/// Computes the last bytes, fewer than [`CHUNK`].
fn compute_end<const P: usize>(data: &[&[u8]], parity: &mut [&mut [u8]], at: usize) {
    let mut sums = [[0; CHUNK]; P];
    for column in data.iter().rev() {
        let mut bytes = [0; CHUNK];
        bytes[..column.len() - at].copy_from_slice(&column[at..]);
        step(&mut sums, &bytes);
    }
    for (sum, column) in sums.iter().zip(parity.iter_mut()) {
        let end = column.len() - at;
        column[at..].copy_from_slice(&sum[..end]);
    }
}

/// Computes the parity columns of data columns. All columns are equally long.
///
/// # Panics
/// If there are no data columns, no parity columns or more than [`PARITY_MAX`], or if lengths differ.
pub fn compute(data: &[&[u8]], parity: &mut [&mut [u8]]) {
    assert!(!data.is_empty(), "parity of no data");
    let len = data[0].len();
    let lengths = data.iter().map(|c| c.len());
    let lengths = lengths.chain(parity.iter().map(|c| c.len()));
    assert!(
        lengths.into_iter().all(|l| l == len),
        "columns of one length"
    );
    match parity.len() {
        1 => compute_with::<1>(data, parity),
        2 => compute_with::<2>(data, parity),
        PARITY_MAX => compute_with::<PARITY_MAX>(data, parity),
        other => panic!("{other} parity columns"),
    }
}

fn product(a: u8, b: u8) -> u8 {
    let mut sum = 0;
    for bit in (0..8).rev() {
        let high = sum >> 7;
        sum = (sum << 1) ^ (high * POLYNOMIAL);
        sum ^= ((b >> bit) & 1) * a;
    }
    sum
}

fn power(base: u8, exponent: usize) -> u8 {
    (0..exponent % 255).fold(1, |product_so_far, _| product(product_so_far, base))
}

/// The factor of data column `column` in parity column `row`.
fn factor(row: usize, column: usize) -> u8 {
    power(2, row * column)
}

/// `sum += factor · column`, for each byte.
fn add_scaled(sum: &mut [u8], column: &[u8], factor: u8) {
    for (sum, column) in sum.chunks_mut(CHUNK).zip(column.chunks(CHUNK)) {
        let mut bytes = [0; CHUNK];
        bytes[..column.len()].copy_from_slice(column);
        let mut scaled = [0; CHUNK];
        for bit in (0..8).rev() {
            let mask = if (factor >> bit) & 1 == 1 { 0xff } else { 0 };
            for (scaled, byte) in scaled.iter_mut().zip(&bytes) {
                *scaled = double(*scaled) ^ (byte & mask);
            }
        }
        sum.iter_mut().zip(&scaled).for_each(|(sum, x)| *sum ^= x);
    }
}

/// The inverse of a square matrix, by elimination. None if it is singular.
fn invert(mut matrix: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let size = matrix.len();
    for (n, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|m| u8::from(m == n)));
    }
    for n in 0..size {
        let pivot = (n..size).find(|row| matrix[*row][n] != 0)?;
        matrix.swap(n, pivot);
        let inverse = power(matrix[n][n], 254);
        matrix[n].iter_mut().for_each(|v| *v = product(*v, inverse));
        let pivot = matrix[n].clone();
        for (other, row) in matrix.iter_mut().enumerate() {
            let factor = row[n];
            if other != n && factor != 0 {
                let both = row.iter_mut().zip(&pivot);
                both.for_each(|(v, p)| *v ^= product(*p, factor));
            }
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

/// The columns of a row: data columns first, then parity columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    columns: Vec<Vec<u8>>,
    data: usize,
}

impl Columns {
    /// Columns of which the first `data` are data.
    ///
    /// # Panics
    /// If there are no data columns, or not 1 to [`PARITY_MAX`] parity columns; or if lengths differ.
    #[must_use]
    pub fn new(columns: Vec<Vec<u8>>, data: usize) -> Self {
        let parity = columns.len().checked_sub(data);
        assert!(data > 0 && parity.is_some_and(|p| (1..=PARITY_MAX).contains(&p)));
        assert!(columns.iter().all(|c| c.len() == columns[0].len()));
        Self { columns, data }
    }

    /// All columns.
    #[must_use]
    pub fn all(&self) -> &[Vec<u8>] {
        &self.columns
    }

    /// All columns, to be changed. Their number and lengths must stay.
    pub fn all_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.columns
    }

    fn parity(&self) -> usize {
        self.columns.len() - self.data
    }

    /// Computes all parity columns.
    pub fn compute(&mut self) {
        let (data, parity) = self.columns.split_at_mut(self.data);
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        compute(&data, &mut parity);
    }

    /// Parity columns that differ from the parity of the data columns, by index among all columns.
    #[must_use]
    pub fn wrong_parity(&self) -> Vec<usize> {
        let mut right = self.clone();
        right.compute();
        let differs = |index: &usize| self.columns[*index] != right.columns[*index];
        (self.data..self.columns.len()).filter(differs).collect()
    }

    /// Reconstructs the columns with these indices from the others. False, with nothing changed, if there are more of them
    /// than parity columns.
    pub fn reconstruct(&mut self, missing: &[usize]) -> bool {
        if missing.len() > self.parity() {
            return false;
        }
        let lost = |index: &usize| missing.contains(index);
        let lost_data: Vec<usize> = (0..self.data).filter(lost).collect();
        let whole = (0..self.parity()).filter(|row| !lost(&(self.data + row)));
        let rows: Vec<usize> = whole.take(lost_data.len()).collect();
        let matrix = rows.iter().map(|row| {
            let factors = lost_data.iter().map(|column| factor(*row, *column));
            factors.collect()
        });
        // any square part of these factors that is made of up to three of the rows has an inverse
        let Some(inverse) = invert(matrix.collect()) else {
            return false;
        };
        let len = self.columns[0].len();
        for column in &lost_data {
            self.columns[*column] = vec![0; len];
        }
        // what each of these parity columns lacks: the sum of the lost data with its factors
        let mut present = self.clone();
        present.compute();
        for row in &rows {
            let index = self.data + row;
            add_scaled(&mut present.columns[index], &self.columns[index], 1);
        }
        for (column, factors) in lost_data.iter().zip(&inverse) {
            let mut sum = vec![0; len];
            for (row, factor) in rows.iter().zip(factors) {
                add_scaled(&mut sum, &present.columns[self.data + row], *factor);
            }
            self.columns[*column] = sum;
        }
        if (self.data..self.columns.len()).any(|index| lost(&index)) {
            let mut right = self.clone();
            right.compute();
            for index in (self.data..self.columns.len()).filter(lost) {
                self.columns[index] = std::mem::take(&mut right.columns[index]);
            }
        }
        true
    }

    /// Finds columns that lie: reconstructs the missing columns and, with surplus parity, the fewest others, so that
    /// `is_right` accepts the result. Returns the columns that were taken for lies. None, with nothing changed, if no choice
    /// is accepted.
    pub fn find(
        &mut self,
        missing: &[usize],
        mut is_right: impl FnMut(&Self) -> bool,
    ) -> Option<Vec<usize>> {
        let surplus = self.parity().checked_sub(missing.len())?;
        let others: Vec<usize> = (0..self.columns.len())
            .filter(|index| !missing.contains(index))
            .collect();
        for liars in (0..=surplus).flat_map(|count| choices(&others, count)) {
            let mut tried = self.clone();
            let all: Vec<usize> = missing.iter().chain(&liars).copied().collect();
            if tried.reconstruct(&all) && is_right(&tried) {
                *self = tried;
                return Some(liars);
            }
        }
        None
    }
}

/// All choices of `count` of these indices.
pub(crate) fn choices(of: &[usize], count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in of.iter().enumerate() {
        for mut rest in choices(&of[at + 1..], count - 1) {
            rest.insert(0, *first);
            all.push(rest);
        }
    }
    all
}
