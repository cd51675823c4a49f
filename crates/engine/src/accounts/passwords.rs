//! Password hashing with Argon2id, on blocking threads.

use std::sync::OnceLock;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::ports::{Entropy, PasswordHash};

/// About 20 ms and 19 MiB for each hash. The memory makes brute force expensive.
const ARGON2_MEMORY_KIB: u32 = 19 * 1024;
const ARGON2_PASSES: u32 = 2;
const ARGON2_LANES: u32 = 1;

/// Hashes running or queued. Further ones are rejected, so that sign-ins cannot starve the API.
const MAX_PENDING_HASHES: usize = 32;

/// A plain-text password, wiped from memory on drop.
#[derive(derive_more::Debug)]
#[debug("Password(…)")]
pub struct Password(Zeroizing<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPassword {
    #[error("the password must have at least {} characters", Password::MIN_CHARS)]
    TooShort,
    #[error("the password must have at most {} bytes", Password::MAX_BYTES)]
    TooLong,
}

impl Password {
    pub const MIN_CHARS: usize = 12;
    pub const MAX_BYTES: usize = 256;

    /// An entered password. Only the length is limited, to bound the cost of hashing.
    pub fn parse_existing(text: &str) -> Result<Self, InvalidPassword> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidPassword::TooLong);
        }
        Ok(Password(Zeroizing::new(text.to_owned())))
    }

    /// A newly chosen password.
    pub fn parse_new(text: &str) -> Result<Self, InvalidPassword> {
        if text.chars().count() < Self::MIN_CHARS { Err(InvalidPassword::TooShort) } else { Self::parse_existing(text) }
    }
}

/// The queue of password hashes is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PasswordQueueFull;

/// Hashes passwords on at most half of the cores.
pub(super) struct PasswordHasher {
    running: Semaphore,
    pending: Semaphore,
}

impl Default for PasswordHasher {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        PasswordHasher { running: Semaphore::new((cores / 2).max(1)), pending: Semaphore::new(MAX_PENDING_HASHES) }
    }
}

impl PasswordHasher {
    pub(super) async fn hash(
        &self,
        password: Password,
        entropy: &dyn Entropy,
    ) -> Result<PasswordHash, PasswordQueueFull> {
        let salt: [u8; 16] = entropy.bytes();
        self.run_blocking(move || hash_password(&password, &salt)).await?.ok_or(PasswordQueueFull)
    }

    /// Compares a password with a hash. Without a hash it takes as long and returns `false`.
    pub(super) async fn verify(
        &self,
        password: Password,
        hash: Option<PasswordHash>,
    ) -> Result<bool, PasswordQueueFull> {
        self.run_blocking(move || {
            let expected = hash.as_ref().map_or_else(|| dummy_hash(), |PasswordHash(text)| text.as_str());
            let is_match = verify_phc_string(&password, expected);
            is_match && hash.is_some()
        })
        .await
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordQueueFull> {
        let _queue_permit = self.pending.try_acquire().map_err(|_| PasswordQueueFull)?;
        let _run_permit = self.running.acquire().await.map_err(|_| PasswordQueueFull)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| PasswordQueueFull)
    }
}

/// Stands in for the hash of unknown accounts, so that they take as long to reject.
fn dummy_hash() -> &'static str {
    static DUMMY_HASH: OnceLock<String> = OnceLock::new();
    DUMMY_HASH.get_or_init(|| to_phc_string(ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, &[0; 16], &[0; 32]))
}

fn hash_password(password: &Password, salt: &[u8]) -> Option<PasswordHash> {
    let hash = argon2id(password, ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, salt)?;
    Some(PasswordHash(to_phc_string(ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, salt, &*hash)))
}

fn argon2id(password: &Password, memory: u32, passes: u32, lanes: u32, salt: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let parameters = Params::new(memory, passes, lanes, Some(32)).ok()?;
    let mut out = Zeroizing::new([0; 32]);
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    argon.hash_password_into(password.0.as_bytes(), salt, &mut *out).ok()?;
    Some(out)
}

/// PHC string format.
fn to_phc_string(memory: u32, passes: u32, lanes: u32, salt: &[u8], hash: &[u8]) -> String {
    let [salt, hash] = [salt, hash].map(|bytes| BASE64_STANDARD_NO_PAD.encode(bytes));
    format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}")
}

fn verify_phc_string(password: &Password, text: &str) -> bool {
    let compare = || {
        let mut parts = text.strip_prefix("$argon2id$v=19$")?.split('$');
        let (costs, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let mut costs = costs.split(',');
        let mut cost = |name: &str| costs.next()?.strip_prefix(name)?.parse().ok();
        let (memory, passes, lanes) = (cost("m=")?, cost("t=")?, cost("p=")?);
        let [salt, hash] = [salt, hash].map(|part| BASE64_STANDARD_NO_PAD.decode(part).ok());
        let computed = argon2id(password, memory, passes, lanes, &salt?)?;
        Some(verify_slices_are_equal(&*computed, &hash?).is_ok())
    };
    compare().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::SystemEntropy;

    #[test]
    fn reference_implementation_hash_is_verified() {
        // From the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1
        let text = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        for (password, is_match) in [("password", true), ("differentpassword", false)] {
            assert_eq!(verify_phc_string(&Password::parse_existing(password).unwrap(), text), is_match);
        }
    }

    #[test]
    fn malformed_hash_matches_nothing() {
        for text in
            ["", "$argon2id$v=19$", "$argon2i$v=19$m=8,t=1,p=1$c29tc2FsdA$AAAA", "$argon2id$v=19$m=x,t=1,p=1$a$b"]
        {
            assert!(!verify_phc_string(&Password::parse_existing("password").unwrap(), text), "{text}");
        }
    }

    #[tokio::test]
    async fn password_verifies_only_against_its_own_hash() {
        let passwords = PasswordHasher::default();
        let parse = |text: &str| Password::parse_existing(text).unwrap();
        let hash = passwords.hash(parse("correct horse"), &SystemEntropy::default()).await.unwrap();
        assert_eq!(passwords.verify(parse("correct horse"), Some(hash.clone())).await, Ok(true));
        assert_eq!(passwords.verify(parse("battery staple"), Some(hash)).await, Ok(false));
        assert_eq!(passwords.verify(parse(""), None).await, Ok(false));
    }

    #[test]
    fn new_password_length_is_limited() {
        for (text, expected) in [
            ("elevenchars", Err(InvalidPassword::TooShort)),
            ("twelve chars", Ok(())),
            (&*"x".repeat(256), Ok(())),
            (&*"x".repeat(257), Err(InvalidPassword::TooLong)),
        ] {
            assert_eq!(Password::parse_new(text).map(|_| ()), expected);
        }
        assert_eq!(format!("{:?}", Password::parse_existing("x").unwrap()), "Password(…)");
    }
}
