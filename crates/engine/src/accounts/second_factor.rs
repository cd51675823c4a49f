//! Second factor for sign-ins by password: codes from an authenticator app (TOTP), and recovery codes.
//!
//! The store has an encrypted random seed for each second factor. The TOTP secret and the recovery codes are derived
//! from it. After a rotation of the seal key, housekeeping encrypts the seeds with the new key, so no old key has to be
//! kept for them. Each code is accepted once.

use std::net::IpAddr;

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::SignedDuration;
use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor},
};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{
    AccountError, Accounts, ClientInfo, ConsoleUser, Password, RejectedFactor, SessionToken, SignInError, passwords,
    sessions::SignInMethod, totp,
};
use crate::actor::Administrator;
use crate::{
    context::Context,
    ports::{
        accounts::{
            AccountRecord, LoginAttempt, LoginThrottleKey, NewSecondFactor, PasswordHash, SealedSeed, SecondFactor,
            SecondFactorProof, SecondFactorUse,
        },
        store::StoreError,
    },
    rate_limits::ip_bucket,
};

/// Maximum time between the correct password and the second-factor code.
pub const SECOND_FACTOR_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
const RECOVERY_CODE_COUNT: u32 = 10;
/// Length of a recovery code in base32 characters of 5 bits: 50 bits.
const RECOVERY_CODE_CHARS: usize = 10;
const PENDING_SIGN_IN_PURPOSE: &str = "second-factor-sign-in";
const MAX_RESEALED_SEEDS: u32 = 500;

/// Result of a correct password or a valid link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstFactorOutcome {
    SignedIn(SessionToken),
    /// The account has a second factor, and the user has to enter a code.
    SecondFactor(PendingSignIn),
}

/// A sign-in with a correct password that waits for the second-factor code. Encrypted, because the browser keeps it in
/// a cookie.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("PendingSignIn(…)")]
pub struct PendingSignIn(String);

impl PendingSignIn {
    /// Returns the value of the cookie. It may be sent only to the browser that signs in.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A generated second factor that is not enabled yet.
#[derive(Clone, derive_more::Debug)]
#[debug("SecondFactorSetup(…)")]
pub struct SecondFactorSetup {
    /// The encrypted seed. The form that enables the second factor sends it back.
    pub seed: String,
    /// The TOTP secret in base32, for the authenticator app.
    pub secret: String,
}

/// Input of the form that enables a second factor.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("EnableSecondFactor(…)")]
pub struct EnableSecondFactor<'i> {
    /// The encrypted seed from [`SecondFactorSetup::seed`].
    pub seed: &'i str,
    /// A code from the new second factor. It proves that the authenticator app has the new secret.
    pub code: &'i str,
    /// The account's current password.
    pub password: &'i str,
    /// A code from the second factor to replace, or one of its recovery codes. Ignored if the account has no second
    /// factor.
    pub current_code: &'i str,
}

#[derive(Debug, thiserror::Error)]
pub enum SecondFactorError {
    #[error("this code is wrong, has expired or was used before")]
    WrongCode,
    #[error("the code of the current second factor is wrong, has expired or was used before")]
    WrongCurrentCode,
    #[error("the current password is wrong")]
    WrongPassword,
    #[error("too many sign-ins at the moment; try again shortly")]
    Busy,
    #[error("this deployment requires a second factor; you can replace it, but not turn it off")]
    Required,
    #[error("too many failed attempts; try again in {seconds} s")]
    Throttled { seconds: u32 },
    #[error("the second factor of this account has changed meanwhile; reload the page")]
    Changed,
    #[error("it took too long to enter the code; sign in again")]
    Expired,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SignInError> for SecondFactorError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::WrongCredentials => SecondFactorError::WrongCode,
            SignInError::Busy => SecondFactorError::Busy,
            SignInError::Throttled { seconds } => SecondFactorError::Throttled { seconds },
            SignInError::Store(error) => SecondFactorError::Store(error),
        }
    }
}

impl From<passwords::PasswordQueueFull> for SecondFactorError {
    fn from(passwords::PasswordQueueFull: passwords::PasswordQueueFull) -> Self {
        SecondFactorError::Busy
    }
}

impl Accounts {
    /// Returns whether accounts that sign in by password must have a second factor.
    pub fn is_second_factor_required(&self) -> bool {
        self.context.settings.require_second_factor
    }

    /// Generates a second factor for the user. Nothing is stored until
    /// [`enable_second_factor`](Self::enable_second_factor).
    pub fn generate_second_factor(&self, user: &ConsoleUser) -> Result<SecondFactorSetup, StoreError> {
        let account = user.account.id;
        let seed = Seed(Zeroizing::new(self.context.entropy.bytes()));
        let sealed = self.context.seal_seed(account, &seed)?;
        Ok(SecondFactorSetup { seed: BASE64_URL_SAFE_NO_PAD.encode(sealed.0), secret: seed.secret_in_base32() })
    }

    /// Restores the result of an earlier [`generate_second_factor`](Self::generate_second_factor) from its encrypted
    /// seed. `None`: the seed does not belong to this account.
    pub fn find_second_factor_setup(&self, user: &ConsoleUser, sealed: &str) -> Option<SecondFactorSetup> {
        let seed = self.context.unseal_seed(user.account.id, parse_seed(sealed)?)?;
        Some(SecondFactorSetup { seed: sealed.to_owned(), secret: seed.secret_in_base32() })
    }

    /// Enables a second factor, or replaces the current one. Ends the account's other sessions, because they began
    /// without it. Returns the recovery codes.
    pub async fn enable_second_factor(
        &self,
        user: &ConsoleUser,
        session: &SessionToken,
        input: EnableSecondFactor<'_>,
        address: IpAddr,
    ) -> Result<Vec<String>, SecondFactorError> {
        let account = user.account.id;
        let sealed = parse_seed(input.seed).ok_or(SecondFactorError::Changed)?;
        let seed = self.context.unseal_seed(account, sealed).ok_or(SecondFactorError::Changed)?;
        // Wrong codes are not throttled here: the user has just been shown the secret, so there is nothing to guess.
        let step = totp::find_step(&*seed.secret(), &normalize_code(input.code), self.context.now());
        let step = step.ok_or(SecondFactorError::WrongCode)?;
        let mut attempts = vec![self.count_login_attempt(user.account.email.as_str(), address).await?];
        let entered = Password::parse_existing(input.password).map_err(|_| SecondFactorError::WrongPassword)?;
        let record = self.store.find_account(account).await?.ok_or(SecondFactorError::Changed)?;
        let is_correct = self.password_hasher.verify(entered, record.password.clone()).await?;
        let password = record.password.filter(|_| is_correct).ok_or(SecondFactorError::WrongPassword)?;
        let replaces = match record.second_factor {
            Some(current) => {
                attempts.push(self.count_second_factor_attempt(account, address).await?);
                let used = self.verify_code(account, current, input.current_code)?;
                Some(used.ok_or(SecondFactorError::WrongCurrentCode)?)
            }
            None => None,
        };
        let audit =
            self.context.new_account_audit_event(Actor::Account(account), Action::AccountSecondFactorEnabled, account);
        let session = self.hash_session_token(session)?;
        let factor = NewSecondFactor { account, seed: sealed, step, password, replaces, session, attempts };
        if !self.store.enable_second_factor(factor, &audit).await? {
            return Err(SecondFactorError::Changed);
        }
        let with_hyphen =
            |code: String| format!("{}-{}", &code[..RECOVERY_CODE_CHARS / 2], &code[RECOVERY_CODE_CHARS / 2..]);
        Ok(seed.recovery_codes().into_iter().map(with_hyphen).collect())
    }

    /// Disables the user's second factor. `code` is one of its codes, or a recovery code.
    pub async fn disable_second_factor(
        &self,
        user: &ConsoleUser,
        code: &str,
        address: IpAddr,
    ) -> Result<(), SecondFactorError> {
        if self.is_second_factor_required() {
            return Err(SecondFactorError::Required);
        }
        let account = user.account.id;
        let record = self.store.find_account(account).await?;
        let factor = record.and_then(|record| record.second_factor).ok_or(SecondFactorError::Changed)?;
        let attempt = self.count_second_factor_attempt(account, address).await?;
        let used = self.verify_code(account, factor, code)?.ok_or(SecondFactorError::WrongCode)?;
        let action = Action::AccountSecondFactorDisabled;
        let audit = self.context.new_account_audit_event(Actor::Account(account), action, account);
        let is_disabled = self.store.disable_second_factor(used, attempt, &audit).await?;
        if is_disabled { Ok(()) } else { Err(SecondFactorError::WrongCode) }
    }

    /// Removes the second factor of an account without a code, for a user who has lost it.
    pub async fn remove_second_factor(
        &self,
        administrator: &Administrator,
        account: AccountId,
    ) -> Result<(), AccountError> {
        let audit = administrator.new_audit_event(&self.context, Action::AccountSecondFactorDisabled, account);
        self.store.remove_second_factor(account, &audit).await?;
        Ok(())
    }

    /// Completes a sign-in with a code from the second factor, or a recovery code.
    pub async fn complete_sign_in(
        &self,
        pending: &str,
        code: &str,
        client: &ClientInfo,
    ) -> Result<SessionToken, SecondFactorError> {
        let found = self.find_pending_sign_in(pending).await?;
        let (record, password, factor) = found.ok_or(SecondFactorError::Expired)?;
        let account = record.account.id;
        let attempt = self.count_second_factor_attempt(account, client.address).await?;
        let Some(used) = self.verify_code(account, factor, code)? else {
            self.record_failed_sign_in(Some(account), RejectedFactor::SecondFactor);
            return Err(SecondFactorError::WrongCode);
        };
        let new_event = |action| self.context.new_account_audit_event(Actor::Account(account), action, account);
        let mut audit = vec![new_event(Action::AccountSignedIn)];
        if matches!(used.proof, SecondFactorProof::RecoveryCode { .. }) {
            audit.insert(0, new_event(Action::AccountRecoveryCodeUsed));
        }
        let (token, session) = self.new_session(account, SignInMethod::Password, client)?;
        let attempts = [self.new_login_attempt(record.account.email.as_str(), client.address)?, attempt];
        let is_begun = self.store.begin_session_with_second_factor(session, &password, used, attempts, &audit).await?;
        if is_begun { Ok(token) } else { Err(SecondFactorError::WrongCode) }
    }

    /// Returns whether a sign-in still waits for the second factor.
    pub async fn is_sign_in_pending(&self, pending: &str) -> Result<bool, StoreError> {
        Ok(self.find_pending_sign_in(pending).await?.is_some())
    }

    /// Creates a sign-in that waits for the second factor. It becomes invalid when the password changes.
    pub(super) fn new_pending_sign_in(
        &self,
        account: AccountId,
        password: &PasswordHash,
    ) -> Result<PendingSignIn, StoreError> {
        let plain = [&account.0.as_bytes()[..], &self.hash_pending_password(password)?].concat();
        self.seal_for_browser(PENDING_SIGN_IN_PURPOSE, &plain, SECOND_FACTOR_TIMEOUT).map(PendingSignIn)
    }

    async fn find_pending_sign_in(
        &self,
        pending: &str,
    ) -> Result<Option<(AccountRecord, PasswordHash, SecondFactor)>, StoreError> {
        let plain = self.unseal_from_browser(PENDING_SIGN_IN_PURPOSE, pending);
        let parts = plain.as_deref().and_then(|plain| plain.split_first_chunk::<16>());
        let Some((account, password_hash)) = parts else { return Ok(None) };
        let Some(record) = self.store.find_account(AccountId(Uuid::from_bytes(*account))).await? else {
            return Ok(None);
        };
        let (Some(password), Some(factor), false) = (record.password.clone(), record.second_factor, record.is_disabled)
        else {
            return Ok(None);
        };
        let is_same = verify_slices_are_equal(&self.hash_pending_password(&password)?, password_hash).is_ok();
        Ok(is_same.then_some((record, password, factor)))
    }

    fn hash_pending_password(&self, PasswordHash(hash): &PasswordHash) -> Result<[u8; 32], StoreError> {
        self.context.keyed_hash(&[b"pending-password", hash.as_bytes()])
    }

    /// Counts an attempt to enter a code. Unlike password attempts, these are throttled per account for all addresses
    /// together (and also per address): an attacker who knows the password could guess codes from many addresses.
    async fn count_second_factor_attempt(
        &self,
        account: AccountId,
        address: IpAddr,
    ) -> Result<LoginAttempt, SignInError> {
        let address = ip_bucket(address).to_string();
        let hash = |parts: &[&[u8]]| self.context.keyed_hash(parts).map(LoginThrottleKey);
        let attempt = LoginAttempt {
            account: hash(&[b"login-second-factor", account.0.as_bytes()])?,
            address: hash(&[b"login-address", address.as_bytes()])?,
            at: self.context.now(),
        };
        self.count_attempt(attempt).await
    }

    /// Verifies a code from the second factor, or a recovery code. `None`: it is wrong or was used before.
    fn verify_code(
        &self,
        account: AccountId,
        factor: SecondFactor,
        code: &str,
    ) -> Result<Option<SecondFactorUse>, StoreError> {
        let SecondFactor { seed: sealed, last_step, used_recovery_codes } = factor;
        let code = normalize_code(code);
        let seed = self.context.unseal_seed(account, sealed).ok_or_else(|| corrupt_seed(account))?;
        let step = totp::find_step(&*seed.secret(), &code, self.context.now()).filter(|step| *step > last_step);
        let proof = if let Some(step) = step {
            Some(SecondFactorProof::Totp { step })
        } else {
            let codes = (0..).zip(seed.recovery_codes());
            let mut unused = codes.filter(|(index, _)| used_recovery_codes & (1 << index) == 0);
            let is_match = |known: &str| verify_slices_are_equal(known.as_bytes(), code.as_bytes()).is_ok();
            unused.find(|(_, known)| is_match(known)).map(|(index, _)| SecondFactorProof::RecoveryCode { index })
        };
        Ok(proof.map(|proof| SecondFactorUse { account, seed: sealed, proof }))
    }

    /// Finds a batch of seeds that are encrypted with older seal keys, and encrypts them with the active one. Returns
    /// the number of replaced seeds.
    pub(crate) async fn reseal_second_factors(&self) -> Result<usize, StoreError> {
        let Some(active) = self.context.active_seal_key() else { return Ok(0) };
        let mut resealed = 0;
        for (account, sealed) in self.store.list_seeds_of_other_keys(active, MAX_RESEALED_SEEDS).await? {
            let Some(seed) = self.context.unseal_seed(account, sealed) else {
                tracing::error!(%account, "the second factor of an account cannot be unsealed");
                continue;
            };
            let new = self.context.seal_seed(account, &seed)?;
            resealed += usize::from(self.store.reseal_second_factor(account, sealed, new).await?);
        }
        Ok(resealed)
    }
}

/// Random bytes from which the TOTP secret and the recovery codes of a second factor are derived.
struct Seed(Zeroizing<[u8; Self::LENGTH]>);

impl Seed {
    const LENGTH: usize = 32;

    fn secret(&self) -> Zeroizing<[u8; totp::SECRET_BYTES]> {
        let mut secret = Zeroizing::new([0; totp::SECRET_BYTES]);
        secret.copy_from_slice(&self.derive(b"totp-secret")[..totp::SECRET_BYTES]);
        secret
    }

    fn secret_in_base32(&self) -> String {
        totp::base32(&*self.secret())
    }

    /// Derives the recovery codes in the format of [`normalize_code`], without hyphens.
    fn recovery_codes(&self) -> Vec<String> {
        let code = |index: u32| {
            let mut code = totp::base32(&self.derive(format!("recovery-code {index}").as_bytes()));
            code.truncate(RECOVERY_CODE_CHARS);
            code
        };
        (0..RECOVERY_CODE_COUNT).map(code).collect()
    }

    fn derive(&self, purpose: &[u8]) -> Zeroizing<Vec<u8>> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*self.0);
        Zeroizing::new(hmac::sign(&key, purpose).as_ref().to_vec())
    }
}

impl Context {
    /// Encrypts a seed. It can be unsealed only for the same account.
    fn seal_seed(&self, account: AccountId, seed: &Seed) -> Result<SealedSeed, StoreError> {
        let sealed = self.seal(&seed_context(account), &*seed.0)?;
        sealed.try_into().map(SealedSeed).map_err(|_| corrupt_seed(account))
    }

    fn unseal_seed(&self, account: AccountId, sealed: SealedSeed) -> Option<Seed> {
        let plain = Zeroizing::new(self.unseal(&seed_context(account), &sealed.0)?);
        plain.as_slice().try_into().ok().map(|seed| Seed(Zeroizing::new(seed)))
    }
}

fn seed_context(account: AccountId) -> Vec<u8> {
    format!("second-factor:{account}").into_bytes()
}

fn corrupt_seed(account: AccountId) -> StoreError {
    StoreError::CorruptRow {
        table: "accounts",
        row: account.to_string(),
        problem: "the second factor cannot be unsealed".to_owned(),
    }
}

pub(super) fn count_unused_recovery_codes(factor: &SecondFactor) -> u32 {
    RECOVERY_CODE_COUNT.saturating_sub(factor.used_recovery_codes.count_ones())
}

fn parse_seed(text: &str) -> Option<SealedSeed> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(SealedSeed)
}

/// Converts a code to upper case, and removes the spaces and hyphens that users type between groups of characters.
fn normalize_code(code: &str) -> String {
    code.chars().filter(|symbol| !symbol.is_whitespace() && *symbol != '-').collect::<String>().to_ascii_uppercase()
}
