//! A histogram of durations in the form that Prometheus uses: each bucket counts all durations up
//! to its bound.

/// Counts durations by upper bounds in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds_ms: &'static [u64],
    buckets: Vec<u64>,
    count: u64,
    sum_us: u64,
}

impl Histogram {
    pub fn new(bounds_ms: &'static [u64]) -> Self {
        Self { bounds_ms, buckets: vec![0; bounds_ms.len()], count: 0, sum_us: 0 }
    }

    pub fn add(&mut self, micros: u64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(self.bounds_ms) {
            *bucket += u64::from(micros <= bound * 1000);
        }
        self.count += 1;
        self.sum_us += micros;
    }

    /// Upper bound in milliseconds and count of each bucket. Durations above the last bound are
    /// counted only in [`Histogram::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bounds_ms.iter().copied().zip(self.buckets.iter().copied())
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum_ms(&self) -> f64 {
        self.sum_us as f64 / 1000.0
    }
}
