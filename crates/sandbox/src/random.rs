//! Randomness by seed: a run that went wrong can be run again.

/// `SplitMix64`, which is small, quick and good enough to garble a text.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// What follows depends on the seed and on the subject only, not on what else is drawn meanwhile.
    pub(crate) fn new(seed: u64, subject: u64) -> Self {
        let mut by_seed = Self(seed);
        Self(by_seed.draw() ^ subject.wrapping_mul(Self::STEP))
    }

    /// A number below `limit`, or 0 if there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.draw() % limit).unwrap_or_default()
    }

    /// Any octet but the given one.
    pub(crate) fn octet_other_than(&mut self, octet: u8) -> u8 {
        let [.., drawn] = self.draw().to_be_bytes();
        octet ^ drawn.max(1)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
