//! Random numbers from a seed, so that runs can be reproduced.

use parking_lot::Mutex;
use ringtrue_engine::ports::entropy::Entropy;

/// Random number generator with a seed, by the `SplitMix64` algorithm.
#[derive(Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    pub fn new(seed: u64) -> Self {
        SeededRng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    /// Returns `true` with the given probability in percent.
    pub fn percent_chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Seeded entropy for the engine.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<SeededRng>);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        SeededEntropy(Mutex::new(SeededRng::new(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut rng = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&rng.next().to_be_bytes()[..chunk.len()]);
        }
    }
}
