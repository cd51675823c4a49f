//! The user's part of a sign-in: proving a number, and returning to the client.

use std::net::IpAddr;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckId, CheckOutcome, CheckStatus, ErrorCode, Lifecycle},
    phone::{Country, InvalidPhoneNumber, Msisdn},
    product::Product,
    reverse_sms::Platform,
    sign_in::{AuthenticationContext, AuthorizationErrorCode, RedirectUri, SessionLifetime, SignInId, SignInProof},
    sim_swap::SimSwapPeriod,
    tenancy::{Mode, Name, Project, ProjectId},
    verification::{Brand, Locale, VerificationCheck},
    web_url::RedirectUrl,
};

use super::{CODE_TTL, SignIns, new_ended_sign_in, sealed, sealed::KeptRequest};
use crate::{
    checks::{CreateError, ReadError},
    ports::{
        sign_in::{SignInCheck, SignInEnd, SignInRecord, SignInSession},
        store::StoreError,
    },
    silent::{BrowserKey, DeviceArrival, NextStep, RedeemError, RedirectError},
    verifications::{SignInVerification, SilentWays},
};

/// What the page of a sign-in shows.
#[derive(derive_more::Debug)]
pub struct SignInView {
    pub id: SignInId,
    pub project: ProjectId,
    /// Name to show if the brand has none. `None`: this node does not know the project.
    pub project_name: Option<Name>,
    pub brand: Brand,
    pub mode: Mode,
    pub redirect_uri: RedirectUri,
    /// Languages that the client asked for, best first. Empty: the browser's language.
    pub locales: Vec<Locale>,
    pub state: SignInState,
}

#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum SignInState {
    /// Asks for the number.
    #[debug("AskNumber")]
    AskNumber {
        /// The number in the client's hint. `None`: there is no hint.
        hinted_number: Option<String>,
        /// Country of the hinted number. `None`: there is no hint, or its country is not known.
        country: Option<Country>,
        /// Whether the operator can be asked for the number.
        can_discover: bool,
        /// Whether the page asks the operator without waiting for the user.
        starts_discovery: bool,
    },
    /// The user was sent to the operator, and has not come back.
    Discovering,
    /// The hosted page at this URL verifies the number.
    #[debug("Verifying")]
    Verifying { page_url: String },
    /// Another browser began the sign-in.
    OtherBrowser { has_ended: bool },
    /// The browser returns to the client at this URL.
    #[debug("Ended")]
    Ended { return_to: String },
    /// The code has expired or was used.
    Used,
    /// Nobody can finish the sign-in any more.
    Expired,
}

/// A number that a user has entered, and what is known of the browser.
#[derive(Clone, derive_more::Debug)]
#[debug("EnteredNumber")]
pub struct EnteredNumber<'a> {
    /// The number as the user wrote it.
    pub number: &'a str,
    /// Country of a number in national form. `None`: the user has chosen none.
    pub country: Option<Country>,
    /// Language in which the hosted page continues.
    pub locale: Locale,
    /// Keys in the browser's cookies.
    pub browser_keys: &'a [BrowserKey],
    pub platform: Platform,
    pub address: IpAddr,
}

/// Why a number is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NumberError {
    #[error("no sign-in has this link")]
    NotFound,
    #[error("{0}")]
    Invalid(InvalidPhoneNumber),
    #[error("no method can verify the number")]
    NotSupported,
    #[error("too many attempts for this number")]
    TooManyAttempts,
    #[error("the number cannot be looked up at the moment")]
    Unavailable,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a browser does after it has returned from a proof.
#[derive(derive_more::Debug)]
pub enum FinishOutcome {
    /// Shows the page of the sign-in.
    Page,
    /// Returns to the client. With a session, the browser gets its token.
    #[debug("Return")]
    Return { location: String, session: Option<(ProjectId, String, SessionLifetime)> },
}

/// A sign-in with its request and its project.
struct LoadedSignIn {
    record: SignInRecord,
    request: KeptRequest,
    project: std::sync::Arc<Project>,
}

/// The result of a check that proves a number.
pub(super) enum ProofState {
    /// The check is open.
    Open,
    Proven(SignInProof),
    /// The operator has recognised the device. Its number is not known.
    Recognised,
    /// The check has failed, and the user can enter a number again.
    AskAgain,
    /// The check has failed, and the sign-in ends with this error.
    Failed(AuthorizationErrorCode, &'static str),
}

impl SignIns {
    async fn load_by_token(&self, token: &str) -> Result<Option<LoadedSignIn>, StoreError> {
        let Some(id) = self.sign_in_of_token(token) else { return Ok(None) };
        let Some(record) = self.store.find_sign_in(id).await? else { return Ok(None) };
        let request = KeptRequest::unseal(&self.context, &record)?;
        let Some(project) = self.context.control_plane.project(record.project) else { return Ok(None) };
        Ok(Some(LoadedSignIn { record, request, project }))
    }

    /// Returns what the page shows to a browser with these keys in its cookies. `None`: the token is wrong.
    pub async fn page(
        &self,
        token: &str,
        keys: &[BrowserKey],
        address: IpAddr,
        sim: Option<&str>,
    ) -> Result<Option<SignInView>, StoreError> {
        let Some(loaded) = self.load_by_token(token).await? else { return Ok(None) };
        let state = self.page_state(&loaded, keys, address, sim).await?;
        let LoadedSignIn { record, request, project } = loaded;
        Ok(Some(SignInView {
            id: record.id,
            project: record.project,
            project_name: Some(project.name.clone()),
            brand: project.configuration.verification.brand.clone(),
            mode: project.mode,
            redirect_uri: request.redirect_uri,
            locales: request.locales,
            state,
        }))
    }

    async fn page_state(
        &self,
        loaded: &LoadedSignIn,
        keys: &[BrowserKey],
        address: IpAddr,
        sim: Option<&str>,
    ) -> Result<SignInState, StoreError> {
        let LoadedSignIn { record, request, project } = loaded;
        let now = self.context.now();
        if self.own_key(record.id, keys).is_none() {
            return Ok(SignInState::OtherBrowser { has_ended: record.end.is_some() });
        }
        match self.redirect_url_of_ended(loaded)? {
            Some(return_to) => return Ok(SignInState::Ended { return_to }),
            None if record.end.is_some() => return Ok(SignInState::Used),
            None if now >= record.expires_at => return Ok(SignInState::Expired),
            None => {}
        }
        match record.check {
            Some(SignInCheck { product: Product::Verification, id }) => {
                match self.verifications.read(record.project, id).await {
                    // An open verification, or one whose result the hosted page still has to pass on.
                    Ok(verification) => match verification.page_url {
                        Some(page_url) => return Ok(SignInState::Verifying { page_url }),
                        None if is_proven(&verification.check) => {
                            return Ok(SignInState::Verifying { page_url: self.verifications.page_url(id)? });
                        }
                        None => {}
                    },
                    Err(ReadError::Store(error)) => return Err(error),
                    Err(_) => {}
                }
            }
            Some(SignInCheck { product, id }) => match self.silent.silent_check(record.project, product, id).await {
                Ok(check) if matches!(check.status(), CheckStatus::Accepted | CheckStatus::Pending) => {
                    return Ok(SignInState::Discovering);
                }
                Err(ReadError::Store(error)) => return Err(error),
                Ok(_) | Err(_) => {}
            },
            None => {}
        }
        let can_discover = self.can_discover(project, address, sim);
        let hinted_number = request.hinted_number.clone();
        let parsed = hinted_number.as_deref().and_then(|text| Msisdn::parse(text, project.mode).ok());
        Ok(SignInState::AskNumber {
            country: parsed.and_then(|number| number.country()),
            can_discover,
            starts_discovery: can_discover && record.check.is_none() && hinted_number.is_none(),
            hinted_number,
        })
    }

    /// Starts a verification of the number that the user has entered. Returns the URL of its hosted page.
    pub async fn submit_number(&self, token: &str, entered: EnteredNumber<'_>) -> Result<String, NumberError> {
        let EnteredNumber { number, country, locale, browser_keys, platform, address } = entered;
        let loaded = self.load_own_by_token(token, browser_keys).await?.ok_or(NumberError::NotFound)?;
        let LoadedSignIn { record, request, project } = &loaded;
        // A number that begins with `00` is in international form.
        let number = match number.trim().strip_prefix("00") {
            Some(rest) => format!("+{rest}"),
            None => number.to_owned(),
        };
        let number = Msisdn::parse_written(&number, country, project.mode).map_err(NumberError::Invalid)?;
        let redirect_url = RedirectUrl::from_stored(&self.return_url(token));
        let redirect_url = redirect_url.map_err(|error| StoreError::Refused(error.to_string()))?;
        let settings = &project.configuration.sign_in;
        let period = settings.sim_swap_period.unwrap_or(SimSwapPeriod::DEFAULT);
        let scopes = request.scopes.sign_in_scopes();
        let verification = SignInVerification {
            number: number.clone(),
            silent_ways: match platform {
                _ if self.is_on_mobile_data(project, address) => SilentWays::All,
                // Only Android's wallets have tokens of operators.
                Platform::Android => SilentWays::WalletOnly,
                Platform::Ios | Platform::Unknown => SilentWays::None,
            },
            redirect_url,
            sim_swap_period: scopes.is_some_and(|scopes| scopes.sim_swap).then_some(period),
            locale: Some(locale),
        };
        let created = self.verifications.create_for_sign_in(project, verification).await.map_err(number_error)?;
        let check = SignInCheck { product: Product::Verification, id: created.check.id };
        let from = record.check.map(|check| check.id);
        let number = sealed::seal_number(&self.context, record.id, &number)?;
        if !self.store.replace_sign_in_check(record.id, from, check, Some(number)).await? {
            // Another request has replaced the check, or the sign-in has ended. The page shows which.
            self.cancel_check(record.project, check).await?;
            return Ok(self.page_url(token));
        }
        if let Some(replaced) = record.check {
            self.cancel_check(record.project, replaced).await?;
        }
        Ok(created.page_url.unwrap_or_else(|| self.page_url(token)))
    }

    /// Asks the operator for the number of the device. `None`: the page shows the sign-in's state.
    pub async fn begin_discovery(
        &self,
        token: &str,
        keys: &[BrowserKey],
        address: IpAddr,
        sim: Option<&str>,
    ) -> Result<Option<String>, RedirectError> {
        let Some(LoadedSignIn { record, project, .. }) = self.load_own_by_token(token, keys).await? else {
            return Err(RedirectError::NotFound);
        };
        let Some(key) = self.own_key(record.id, keys) else { return Err(RedirectError::NotFound) };
        if !self.can_discover(&project, address, sim) {
            return Ok(None);
        }
        let open = match record.check {
            Some(SignInCheck { product: Product::Discovery, id }) => {
                let check = self.silent.silent_check(record.project, Product::Discovery, id).await;
                let is_open = check.is_ok_and(|check| matches!(check.state, Lifecycle::Open(_)));
                is_open.then_some(id)
            }
            _ => None,
        };
        let id = if let Some(id) = open {
            id
        } else {
            let return_url = RedirectUrl::from_stored(&self.return_url(token));
            let return_url = return_url.map_err(|error| StoreError::Refused(error.to_string()))?;
            let Ok(new) = self.silent.new_check_without_number(&project, Product::Discovery, &return_url) else {
                return Ok(None);
            };
            let created = new.check.id;
            if self.silent.create_without_number(new).await.is_err() {
                return Ok(None);
            }
            let check = SignInCheck { product: Product::Discovery, id: created };
            let from = record.check.map(|check| check.id);
            if !self.store.replace_sign_in_check(record.id, from, check, None).await? {
                return Ok(None);
            }
            created
        };
        let arrival = DeviceArrival {
            product: Product::Discovery,
            check: id,
            sim,
            address,
            browser: Some(key),
            has_wallet: false,
        };
        Ok(match self.silent.start_redirect(arrival).await? {
            NextStep::Redirect(location) => Some(location),
            NextStep::Finish(_) => None,
        })
    }

    /// Ends the sign-in at the user's request. Returns the URL that leads back to the client. `None`: the token is
    /// wrong, or another browser began the sign-in.
    pub async fn cancel(&self, token: &str, keys: &[BrowserKey]) -> Result<Option<String>, StoreError> {
        let Some(loaded) = self.load_own_by_token(token, keys).await? else { return Ok(None) };
        if let Some(check) = loaded.record.check {
            self.cancel_check(loaded.record.project, check).await?;
        }
        self.fail(&loaded, AuthorizationErrorCode::AccessDenied, "cancelled").await
    }

    /// Continues a sign-in whose browser has returned from the hosted page, or from the operator.
    pub async fn finish(
        &self,
        token: &str,
        keys: &[BrowserKey],
        code: Option<&str>,
    ) -> Result<FinishOutcome, StoreError> {
        let loaded = self.load_by_token(token).await?.filter(|loaded| self.may_finish(loaded, keys));
        let Some(loaded) = loaded else {
            if code.is_some() {
                self.release_check(token, keys).await?;
            }
            return Ok(FinishOutcome::Page);
        };
        let record = &loaded.record;
        let Some(check) = record.check.filter(|_| record.end.is_none()) else {
            // The browser has loaded the URL again.
            return Ok(page_or_return(self.redirect_url_of_ended(&loaded)?));
        };
        let state = match check.product {
            Product::Verification => self.verification_proof(record, check.id, code).await?,
            Product::SecureSna => self.device_proof(&loaded.project, check.id, code).await?,
            _ => self.discovery_proof(record, check.id, code).await?,
        };
        let is_discovered = check.product == Product::Discovery && matches!(state, ProofState::Proven(_));
        // Nobody sees a page of a request for a token.
        let has_page = loaded.request.scopes.sign_in_scopes().is_some();
        let outcome = match state {
            ProofState::Proven(proof) => self.complete(&loaded, proof).await?,
            ProofState::Recognised => self.complete_with_device(&loaded).await?,
            ProofState::Open if has_page => FinishOutcome::Page,
            ProofState::AskAgain if !loaded.request.is_silent => FinishOutcome::Page,
            ProofState::Open | ProofState::AskAgain => {
                let error = self.unrecognised_device_error(&loaded.project, check.product, check.id).await?;
                page_or_return(self.fail(&loaded, error.code, &error.description).await?)
            }
            ProofState::Failed(error, reason) => page_or_return(self.fail(&loaded, error, reason).await?),
        };
        if let Some(code) = code.filter(|_| is_discovered) {
            self.conclude_discovery(record.project, check.id, code).await;
        }
        match outcome {
            // Another load of the URL may have ended the sign-in meanwhile.
            FinishOutcome::Page => match self.load_by_token(token).await? {
                Some(loaded) => Ok(page_or_return(self.redirect_url_of_ended(&loaded)?)),
                None => Ok(FinishOutcome::Page),
            },
            outcome @ FinishOutcome::Return { .. } => Ok(outcome),
        }
    }

    /// Concludes a Discovery check whose number a sign-in has taken over. Without that, it expires.
    async fn conclude_discovery(&self, project: ProjectId, check: CheckId, code: &str) {
        if let Err(RedeemError::Read(ReadError::Store(error))) =
            self.silent.redeem(project, Product::Discovery, check, code).await
        {
            tracing::warn!(%check, %error, "failed to conclude the Discovery check of a sign-in");
        }
    }

    async fn verification_proof(
        &self,
        record: &SignInRecord,
        id: CheckId,
        code: Option<&str>,
    ) -> Result<ProofState, StoreError> {
        let result = match code {
            Some(code) => {
                self.verifications.redeem(record.project, id, code).await.map(|redeemed| redeemed.verification)
            }
            None => self.verifications.read(record.project, id).await.map_err(RedeemError::from),
        };
        let verification = match result {
            Ok(verification) => verification,
            Err(RedeemError::Read(ReadError::Store(error))) => return Err(error),
            // The browser has no code, or an old one. The page shows how the verification stands.
            Err(_) => match self.verifications.read(record.project, id).await {
                Ok(verification) if verification.page_url.is_none() && !is_proven(&verification.check) => verification,
                Ok(_) => return Ok(ProofState::Open),
                Err(ReadError::Store(error)) => return Err(error),
                Err(_) => return Ok(ProofState::AskAgain),
            },
        };
        let failed = |reason| Ok(ProofState::Failed(AuthorizationErrorCode::AccessDenied, reason));
        let Lifecycle::Concluded { outcome, at } = &verification.check.state else { return Ok(ProofState::Open) };
        match outcome {
            // Only the code proves that this browser may finish.
            CheckOutcome::Completed(verdict) if verdict.matched && code.is_none() => Ok(ProofState::Open),
            CheckOutcome::Completed(verdict) if verdict.matched => Ok(ProofState::Proven(SignInProof {
                number: sealed::unseal_number(&self.context, record, verification.check.mode)?,
                context: AuthenticationContext::of_method(verdict.method),
                at: *at,
                sim_change: verdict.no_sim_change.map(|unchanged| !unchanged),
            })),
            CheckOutcome::Completed(_) => failed("the number could not be verified"),
            CheckOutcome::Expired => failed("the verification has expired"),
            // Cancelled because another browser passed the check, which may not finish.
            CheckOutcome::Error(ErrorCode::WrongNumber | ErrorCode::Cancelled) => Ok(ProofState::AskAgain),
            CheckOutcome::Error(ErrorCode::GivenUp) => failed("cancelled"),
            CheckOutcome::Error(ErrorCode::MethodsExhausted) => failed("no method could verify the number"),
            CheckOutcome::Error(_) => Ok(ProofState::Failed(AuthorizationErrorCode::ServerError, "internal error")),
        }
    }

    async fn discovery_proof(
        &self,
        record: &SignInRecord,
        id: CheckId,
        code: Option<&str>,
    ) -> Result<ProofState, StoreError> {
        let Some(code) = code else { return Ok(ProofState::AskAgain) };
        // The check is concluded after the sign-in has ended, so that a second load of the URL reads the number, too.
        match self.silent.discovered_number(record.project, id, code).await {
            Ok(number) => Ok(ProofState::Proven(SignInProof {
                number,
                context: AuthenticationContext::Silent,
                at: self.context.now(),
                sim_change: None,
            })),
            Err(RedeemError::Read(ReadError::Store(error))) => Err(error),
            Err(RedeemError::NotReady) => Ok(ProofState::Open),
            Err(_) => Ok(ProofState::AskAgain),
        }
    }

    /// Ends a request for a token by which the client asks about a number.
    async fn complete_with_device(&self, loaded: &LoadedSignIn) -> Result<FinishOutcome, StoreError> {
        let LoadedSignIn { record, request, .. } = loaded;
        let now = self.context.now();
        let end = SignInEnd::Proven {
            proof: sealed::seal_device(&self.context, record.id, now)?,
            code_expires_at: now.saturating_add(CODE_TTL).unwrap_or(Timestamp::MAX),
            redeemed_at: None,
            revoked_at: None,
        };
        let ended = new_ended_sign_in(record.project, record.id, &request.scopes, end, None, now);
        if !self.store.end_sign_in(ended).await? {
            return Ok(FinishOutcome::Page);
        }
        let location = self.code_redirect_url(&request.redirect_uri, request.state.as_deref(), record.id)?;
        Ok(FinishOutcome::Return { location, session: None })
    }

    /// Ends the sign-in with a code.
    async fn complete(&self, loaded: &LoadedSignIn, proof: SignInProof) -> Result<FinishOutcome, StoreError> {
        let LoadedSignIn { record, request, project } = loaded;
        if let Some(expected) = &request.expected_subject
            && self.subject(project.id, &proof.number)? != *expected
        {
            let reason = "another user than that of `id_token_hint` has signed in";
            return Ok(page_or_return(self.fail(loaded, AuthorizationErrorCode::LoginRequired, reason).await?));
        }
        let is_hinted = request.hinted_number.as_deref().is_none_or(|hinted| hinted == proof.number.as_str());
        // CAMARA's clients compare the numbers themselves.
        if request.is_silent && request.scopes.sign_in_scopes().is_some() && !is_hinted {
            let reason = "the device has another number than that of `login_hint`";
            return Ok(page_or_return(self.fail(loaded, AuthorizationErrorCode::LoginRequired, reason).await?));
        }
        let now = self.context.now();
        let end = SignInEnd::Proven {
            proof: sealed::seal_proof(&self.context, &record.id.to_string(), project.mode, &proof)?,
            code_expires_at: now.saturating_add(CODE_TTL).unwrap_or(Timestamp::MAX),
            redeemed_at: None,
            revoked_at: None,
        };
        let lifetime = project.configuration.sign_in.session;
        let lifetime = lifetime.filter(|lifetime| lifetime.seconds() > 0 && request.scopes.sign_in_scopes().is_some());
        let session = lifetime.map(|lifetime| self.new_session(project, &proof, lifetime, now)).transpose()?;
        let (row, cookie) = match session {
            Some((row, token, lifetime)) => (Some(row), Some((project.id, token, lifetime))),
            None => (None, None),
        };
        let ended = new_ended_sign_in(record.project, record.id, &request.scopes, end, row, now);
        if !self.store.end_sign_in(ended).await? {
            return Ok(FinishOutcome::Page);
        }
        let location = self.code_redirect_url(&request.redirect_uri, request.state.as_deref(), record.id)?;
        Ok(FinishOutcome::Return { location, session: cookie })
    }

    fn new_session(
        &self,
        project: &Project,
        proof: &SignInProof,
        lifetime: SessionLifetime,
        now: Timestamp,
    ) -> Result<(SignInSession, String, SessionLifetime), StoreError> {
        let token = BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<32>());
        let duration = SignedDuration::from_secs(lifetime.seconds().into());
        let session = SignInSession {
            token: self.session_hash(project, &token)?,
            project: project.id,
            number: self.context.hash_number(&proof.number)?,
            proof: sealed::seal_proof(&self.context, &token, project.mode, proof)?,
            expires_at: now.saturating_add(duration).unwrap_or(Timestamp::MAX),
        };
        Ok((session, token, lifetime))
    }

    /// Ends the sign-in with an error. Returns the URL that leads back to the client. `None`: it has ended before.
    async fn fail(
        &self,
        loaded: &LoadedSignIn,
        error: AuthorizationErrorCode,
        reason: &str,
    ) -> Result<Option<String>, StoreError> {
        let end = SignInEnd::Failed { error: format!("{error} {reason}") };
        let location = self.failed_redirect_url(&loaded.request, &format!("{error} {reason}"));
        let LoadedSignIn { record, request, .. } = loaded;
        let ended = new_ended_sign_in(record.project, record.id, &request.scopes, end, None, self.context.now());
        Ok(self.store.end_sign_in(ended).await?.then_some(location))
    }

    /// `error` is the OAuth error, a space and a description.
    fn failed_redirect_url(&self, request: &KeptRequest, error: &str) -> String {
        let (error, description) = error.split_once(' ').unwrap_or((error, ""));
        self.error_redirect_url(&request.redirect_uri, request.state.as_deref(), error, description)
    }

    /// Returns the URL that leads back to the client after the sign-in has ended. `None`: it has not ended, or its code
    /// was used or has expired.
    fn redirect_url_of_ended(
        &self,
        LoadedSignIn { record, request, .. }: &LoadedSignIn,
    ) -> Result<Option<String>, StoreError> {
        Ok(match &record.end {
            Some(SignInEnd::Proven { code_expires_at, redeemed_at: None, .. })
                if self.context.now() < *code_expires_at =>
            {
                Some(self.code_redirect_url(&request.redirect_uri, request.state.as_deref(), record.id)?)
            }
            Some(SignInEnd::Failed { error }) => Some(self.failed_redirect_url(request, error)),
            Some(SignInEnd::Proven { .. }) | None => None,
        })
    }

    /// Whether a browser with these keys may finish a sign-in. Any browser may finish a request for a token of CAMARA's
    /// APIs, because the client binds it to itself.
    fn may_finish(&self, loaded: &LoadedSignIn, keys: &[BrowserKey]) -> bool {
        loaded.request.scopes.camara_scopes().is_some() || self.is_open_for_browser(loaded, keys)
    }

    /// Whether the browser with these keys began the sign-in, and the user can still act on it.
    fn is_open_for_browser(&self, LoadedSignIn { record, .. }: &LoadedSignIn, keys: &[BrowserKey]) -> bool {
        self.own_key(record.id, keys).is_some() && record.end.is_none() && self.context.now() < record.expires_at
    }

    /// Loads a sign-in for the browser that began it, if the user can still act on it.
    async fn load_own_by_token(&self, token: &str, keys: &[BrowserKey]) -> Result<Option<LoadedSignIn>, StoreError> {
        let loaded = self.load_by_token(token).await?;
        Ok(loaded.filter(|loaded| self.is_open_for_browser(loaded, keys)))
    }

    /// Cancels the verification of a sign-in that another browser has passed at the operator. Otherwise the browser that
    /// began the sign-in would wait for a result that it cannot get. A verification that has ended stays unchanged.
    async fn release_check(&self, token: &str, keys: &[BrowserKey]) -> Result<(), StoreError> {
        let Some(LoadedSignIn { record, .. }) = self.load_by_token(token).await? else { return Ok(()) };
        match record.check {
            Some(check) if record.end.is_none() && self.own_key(record.id, keys).is_none() => {
                self.cancel_check(record.project, check).await
            }
            _ => Ok(()),
        }
    }

    async fn cancel_check(&self, project: ProjectId, check: SignInCheck) -> Result<(), StoreError> {
        if check.product != Product::Verification {
            // A Discovery check ends by itself after two minutes.
            return Ok(());
        }
        match self.verifications.cancel(project, check.id).await {
            Err(ReadError::Store(error)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether the operator may recognise a phone at this address, so that Secure SNA is possible.
    fn is_on_mobile_data(&self, project: &Project, address: IpAddr) -> bool {
        self.operators.for_mode(project.mode).may_verify_device(project, address)
    }

    fn page_url(&self, token: &str) -> String {
        format!("{}/signin/{token}", self.context.settings.base_url)
    }

    pub(super) fn return_url(&self, token: &str) -> String {
        format!("{}/return", self.page_url(token))
    }
}

fn page_or_return(location: Option<String>) -> FinishOutcome {
    location.map_or(FinishOutcome::Page, |location| FinishOutcome::Return { location, session: None })
}

fn is_proven(check: &VerificationCheck) -> bool {
    check.verdict().is_some_and(|verdict| verdict.matched)
}

fn number_error(error: CreateError) -> NumberError {
    match error {
        CreateError::PhoneNumber(problem) => NumberError::Invalid(problem),
        CreateError::MnoNotSupported | CreateError::OnlyReverseSms | CreateError::NetworkNotAllowed => {
            NumberError::NotSupported
        }
        CreateError::TooManyChecks { .. } => NumberError::TooManyAttempts,
        CreateError::LookupUnavailable => NumberError::Unavailable,
        CreateError::Store(error) => NumberError::Store(error),
        CreateError::ProjectDisabled
        | CreateError::CallbackUrl(_)
        | CreateError::RedirectUrl(_)
        | CreateError::Period(_)
        | CreateError::DeviceIp => NumberError::NotFound,
    }
}
