//! Randomness, as a value that comes in.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

/// Gives unpredictable bytes.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Entropy + '_ {
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

/// The randomness of the operating system.
#[derive(Debug, Default)]
pub struct SystemEntropy(SystemRandom);

impl Entropy for SystemEntropy {
    #[expect(clippy::expect_used, reason = "without randomness there are no secrets: nothing may go on")]
    fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("the operating system gives randomness");
    }
}
