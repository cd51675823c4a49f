//! Hashing passwords: dear for whoever guesses, and never on a thread that others wait for.

use std::{fmt, sync::OnceLock};

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::ports::{Entropy, PasswordHash};

/// Some 20 ms and 19 MiB a hash: the memory is what makes guessing dear.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// How many wait for their turn at most. Whoever comes then is turned away: passwords are not what this machine is for.
const MOST_WAITING: usize = 32;

/// A password as somebody has typed it. Wiped when it is done with.
pub struct Password(Zeroizing<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPassword {
    #[error("a password has at least {} characters", Password::MIN_CHARS)]
    TooShort,
    #[error("a password has at most {} bytes", Password::MAX_BYTES)]
    TooLong,
}

impl Password {
    pub const MIN_CHARS: usize = 12;
    pub const MAX_BYTES: usize = 256;

    /// A password that somebody signs in with: any text, but no more than is worth hashing.
    pub fn given(text: &str) -> Result<Self, InvalidPassword> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidPassword::TooLong);
        }
        Ok(Password(Zeroizing::new(text.to_owned())))
    }

    /// A password that somebody chooses.
    pub fn chosen(text: &str) -> Result<Self, InvalidPassword> {
        if text.chars().count() < Self::MIN_CHARS { Err(InvalidPassword::TooShort) } else { Self::given(text) }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Too many passwords are being looked at already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// Hashes passwords, one after the other on half of the cores.
pub struct Passwords {
    turns: Semaphore,
    waiting: Semaphore,
}

impl Default for Passwords {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Passwords { turns: Semaphore::new((cores / 2).max(1)), waiting: Semaphore::new(MOST_WAITING) }
    }
}

impl Passwords {
    pub(super) async fn hash(&self, password: Password, entropy: &dyn Entropy) -> Result<PasswordHash, Busy> {
        let salt: [u8; 16] = entropy.bytes();
        self.run(move || hash_with(&password, &salt)).await?.ok_or(Busy)
    }

    /// Whether a password is the one that was hashed. Without a hash, it takes as long to say that it is not.
    pub(super) async fn is_right(&self, password: Password, hash: Option<PasswordHash>) -> Result<bool, Busy> {
        self.run(move || {
            let expected = hash.as_ref().map_or_else(|| nobodys(), |PasswordHash(text)| text.as_str());
            let is_right = matches(&password, expected);
            is_right && hash.is_some()
        })
        .await
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        let _place = self.waiting.try_acquire().map_err(|_| Busy)?;
        let _turn = self.turns.acquire().await.map_err(|_| Busy)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| Busy)
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

/// What the passwords of unknown accounts are compared with.
fn nobodys() -> &'static str {
    static NOBODYS: OnceLock<String> = OnceLock::new();
    NOBODYS.get_or_init(|| text_of(MEMORY_KIB, PASSES, LANES, &[0; 16], &[0; 32]))
}

fn hash_with(password: &Password, salt: &[u8]) -> Option<PasswordHash> {
    let hashed = hashed(password, MEMORY_KIB, PASSES, LANES, salt)?;
    Some(PasswordHash(text_of(MEMORY_KIB, PASSES, LANES, salt, &*hashed)))
}

fn hashed(password: &Password, memory: u32, passes: u32, lanes: u32, salt: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let parameters = Params::new(memory, passes, lanes, Some(32)).ok()?;
    let mut out = Zeroizing::new([0; 32]);
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    argon.hash_password_into(password.0.as_bytes(), salt, &mut *out).ok()?;
    Some(out)
}

/// In the form that other programs read, too.
fn text_of(memory: u32, passes: u32, lanes: u32, salt: &[u8], hash: &[u8]) -> String {
    let [salt, hash] = [salt, hash].map(|bytes| BASE64_STANDARD_NO_PAD.encode(bytes));
    format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}")
}

fn matches(password: &Password, text: &str) -> bool {
    let compare = || {
        let mut parts = text.strip_prefix("$argon2id$v=19$")?.split('$');
        let (costs, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let mut costs = costs.split(',');
        let mut cost = |name: &str| costs.next()?.strip_prefix(name)?.parse().ok();
        let (memory, passes, lanes) = (cost("m=")?, cost("t=")?, cost("p=")?);
        let [salt, hash] = [salt, hash].map(|part| BASE64_STANDARD_NO_PAD.decode(part).ok());
        let given = hashed(password, memory, passes, lanes, &salt?)?;
        Some(verify_slices_are_equal(&*given, &hash?).is_ok())
    };
    compare().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::SystemEntropy;

    #[test]
    fn a_hash_that_another_program_made_is_understood() {
        // Of the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1
        let text = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        for (password, is_right) in [("password", true), ("differentpassword", false)] {
            assert_eq!(matches(&Password::given(password).unwrap(), text), is_right);
        }
    }

    #[test]
    fn what_is_no_hash_matches_nothing() {
        for text in
            ["", "$argon2id$v=19$", "$argon2i$v=19$m=8,t=1,p=1$c29tc2FsdA$AAAA", "$argon2id$v=19$m=x,t=1,p=1$a$b"]
        {
            assert!(!matches(&Password::given("password").unwrap(), text), "{text}");
        }
    }

    #[tokio::test]
    async fn a_password_is_known_by_its_hash() {
        let passwords = Passwords::default();
        let given = |text: &str| Password::given(text).unwrap();
        let hash = passwords.hash(given("correct horse"), &SystemEntropy::default()).await.unwrap();
        assert_eq!(passwords.is_right(given("correct horse"), Some(hash.clone())).await, Ok(true));
        assert_eq!(passwords.is_right(given("battery staple"), Some(hash)).await, Ok(false));
        assert_eq!(passwords.is_right(given(""), None).await, Ok(false));
    }

    #[test]
    fn chosen_passwords_are_long_and_not_too_long() {
        for (text, chosen) in [
            ("elevenchars", Err(InvalidPassword::TooShort)),
            ("twelve chars", Ok(())),
            (&*"x".repeat(256), Ok(())),
            (&*"x".repeat(257), Err(InvalidPassword::TooLong)),
        ] {
            assert_eq!(Password::chosen(text).map(|_| ()), chosen);
        }
        assert_eq!(format!("{:?}", Password::given("x").unwrap()), "Password(…)");
    }
}
