//! Seeded random numbers, for reproducible runs.

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// The sequence depends only on the seed and the stream, so that streams do not affect each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut seed_state = Self(seed);
        Self(seed_state.next_u64() ^ stream.wrapping_mul(Self::STEP))
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next_u64() % limit).unwrap_or_default()
    }

    pub(crate) fn different_octet(&mut self, octet: u8) -> u8 {
        let [.., drawn] = self.next_u64().to_be_bytes();
        octet ^ drawn.max(1)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
