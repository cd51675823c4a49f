//! Hashes and verifies passwords with Argon2id, on blocking threads.

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::ports::{accounts::PasswordHash, entropy::Entropy};

/// Maximum number of running and queued hash computations. More are rejected, so that sign-ins cannot starve the API.
const MAX_PENDING_HASHES: usize = 32;

/// Memory and passes that Argon2id needs for a new hash. The default, about 20 ms and 19 MiB, makes brute force expensive.
#[derive(Clone, Debug, Default)]
pub struct PasswordCosts(Params);

impl PasswordCosts {
    /// The lowest costs that Argon2 permits, for tests that sign in often and do not test the hashes.
    pub fn lowest() -> Self {
        let lowest = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, None);
        PasswordCosts(lowest.unwrap_or_default())
    }

    /// Returns a hash with these costs that no password matches.
    fn dummy_hash(&self) -> String {
        let (memory, passes, lanes) = (self.0.m_cost(), self.0.t_cost(), self.0.p_cost());
        format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${}${}", "A".repeat(22), "A".repeat(43))
    }
}

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

    /// Parses a password that is compared with a stored one. Only checks the maximum length, to bound the cost of
    /// hashing.
    pub fn parse_existing(text: &str) -> Result<Self, InvalidPassword> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidPassword::TooLong);
        }
        Ok(Password(Zeroizing::new(text.to_owned())))
    }

    /// Parses a newly chosen password, which must also have the minimum length.
    pub fn parse_new(text: &str) -> Result<Self, InvalidPassword> {
        if text.chars().count() < Self::MIN_CHARS { Err(InvalidPassword::TooShort) } else { Self::parse_existing(text) }
    }
}

/// Error: too many hash computations are running and queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PasswordQueueFull;

/// Hashes and verifies passwords on at most half of the cores.
pub(super) struct PasswordHasher {
    costs: PasswordCosts,
    /// Verified instead of a stored hash if the account is unknown or has no password, so that the response time does
    /// not reveal this.
    dummy_hash: String,
    running: Semaphore,
    pending: Semaphore,
}

impl PasswordHasher {
    pub(super) fn new(costs: PasswordCosts) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        PasswordHasher {
            dummy_hash: costs.dummy_hash(),
            costs,
            running: Semaphore::new((cores / 2).max(1)),
            pending: Semaphore::new(MAX_PENDING_HASHES),
        }
    }

    pub(super) async fn hash(
        &self,
        password: Password,
        entropy: &dyn Entropy,
    ) -> Result<PasswordHash, PasswordQueueFull> {
        let salt: [u8; 16] = entropy.bytes();
        let costs = self.costs.clone();
        self.run_blocking(move || hash_password(&password, &salt, costs)).await?.ok_or(PasswordQueueFull)
    }

    /// Returns whether a password matches a hash. Without a hash, takes equally long and returns `false`, so that the
    /// response time does not reveal unknown accounts.
    pub(super) async fn verify(
        &self,
        password: Password,
        hash: Option<PasswordHash>,
    ) -> Result<bool, PasswordQueueFull> {
        let is_known = hash.is_some();
        let expected = hash.map_or_else(|| self.dummy_hash.clone(), |PasswordHash(text)| text);
        self.run_blocking(move || verify_password(&password, &expected) && is_known).await
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

fn hash_password(password: &Password, salt: &[u8], PasswordCosts(costs): PasswordCosts) -> Option<PasswordHash> {
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, costs);
    let hash = argon2.hash_password_with_salt(password.0.as_bytes(), salt).ok()?;
    Some(PasswordHash(hash.to_string()))
}

/// Verifies a password with the cost parameters in the hash. A malformed hash matches nothing.
fn verify_password(password: &Password, hash: &str) -> bool {
    Argon2::default().verify_password(password.0.as_bytes(), hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::entropy::SystemEntropy;

    #[test]
    fn reference_implementation_hash_is_verified() {
        // From the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1
        let text = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        for (password, is_match) in [("password", true), ("differentpassword", false)] {
            assert_eq!(verify_password(&Password::parse_existing(password).unwrap(), text), is_match);
        }
    }

    #[test]
    fn malformed_hash_matches_nothing() {
        for text in
            ["", "$argon2id$v=19$", "$argon2i$v=19$m=8,t=1,p=1$c29tc2FsdA$AAAA", "$argon2id$v=19$m=x,t=1,p=1$a$b"]
        {
            assert!(!verify_password(&Password::parse_existing("password").unwrap(), text), "{text}");
        }
    }

    #[test]
    fn costs_do_not_fall_and_are_the_same_for_unknown_accounts() {
        let costs = PasswordCosts::default();
        let password = Password::parse_existing("password").unwrap();
        let PasswordHash(hash) = hash_password(&password, &[0; 16], costs.clone()).unwrap();
        let (costs_and_salt, _) = hash.rsplit_once('$').unwrap();
        assert_eq!(costs_and_salt, "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA");
        let dummy = costs.dummy_hash();
        assert!(dummy.starts_with(costs_and_salt) && dummy.len() == hash.len(), "{dummy}");
        assert!(!verify_password(&password, &dummy));
    }

    #[tokio::test]
    async fn password_verifies_only_against_its_own_hash() {
        let passwords = PasswordHasher::new(PasswordCosts::default());
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
