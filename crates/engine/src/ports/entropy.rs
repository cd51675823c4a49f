//! Randomness as a dependency, so that tests can seed it.

use std::cell::RefCell;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroize;

/// A source of unpredictable bytes.
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

/// The operating system's random number generator.
///
/// Small requests, such as those for identifiers, are served from a thread-local pool to save system calls. Bytes are
/// wiped from the pool when they are used.
#[derive(Debug, Default)]
pub struct SystemEntropy(SystemRandom);

const POOL_BYTES: usize = 512;
/// Largest request that is served from the pool. Larger ones, such as keys and secrets, go to the operating system.
const MAX_POOLED_BYTES: usize = 16;

thread_local! {
    static POOL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > MAX_POOLED_BYTES {
            return self.fill_from_system(bytes);
        }
        POOL.with_borrow_mut(|pool| {
            if pool.len() < bytes.len() {
                pool.resize(POOL_BYTES, 0);
                self.fill_from_system(pool);
            }
            let rest = pool.len() - bytes.len();
            bytes.copy_from_slice(&pool[rest..]);
            pool[rest..].zeroize();
            pool.truncate(rest);
        });
    }
}

impl SystemEntropy {
    #[expect(clippy::expect_used, reason = "without randomness no secret is safe; the process must stop")]
    fn fill_from_system(&self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("the operating system provides randomness");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn bytes_are_never_repeated() {
        let entropy: &dyn Entropy = &SystemEntropy::default();
        let drawn: HashSet<[u8; 10]> = (0..1_000).map(|_| entropy.bytes()).collect();
        assert_eq!(drawn.len(), 1_000);
        let others: HashSet<[u8; 16]> = (0..1_000).map(|_| entropy.bytes()).collect();
        assert_eq!(others.len(), 1_000);
    }
}
