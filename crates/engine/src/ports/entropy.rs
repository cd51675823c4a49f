//! Randomness, as a value that comes in.

use std::cell::RefCell;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroize;

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
///
/// Identifiers need a few bytes many times a second, and each call for them costs more than the bytes do: small
/// requests are served from a pool of the thread, whose bytes are wiped as they are given out.
#[derive(Debug, Default)]
pub struct SystemEntropy(SystemRandom);

/// What is asked for at once when a pool is empty.
const POOL: usize = 512;
/// Requests up to this size are served from the pool. Keys and secrets are longer.
const SMALL: usize = 16;

thread_local! {
    static UNUSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > SMALL {
            return self.draw(bytes);
        }
        UNUSED.with_borrow_mut(|unused| {
            if unused.len() < bytes.len() {
                unused.resize(POOL, 0);
                self.draw(unused);
            }
            let rest = unused.len() - bytes.len();
            bytes.copy_from_slice(&unused[rest..]);
            unused[rest..].zeroize();
            unused.truncate(rest);
        });
    }
}

impl SystemEntropy {
    #[expect(clippy::expect_used, reason = "without randomness there are no secrets: nothing may go on")]
    fn draw(&self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("the operating system gives randomness");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_given_out_twice() {
        let entropy: &dyn Entropy = &SystemEntropy::default();
        let drawn: HashSet<[u8; 10]> = (0..1_000).map(|_| entropy.bytes()).collect();
        assert_eq!(drawn.len(), 1_000);
        let others: HashSet<[u8; 16]> = (0..1_000).map(|_| entropy.bytes()).collect();
        assert_eq!(others.len(), 1_000);
    }
}
