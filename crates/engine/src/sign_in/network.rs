//! Authorization without the user: the operator recognises the phone on mobile data, by redirects alone. For sign-ins with
//! `prompt=none`, and for tokens of CAMARA's APIs (network authentication).

use ringtrue_domain::{
    camara::CamaraScopes,
    lifecycle::{CheckId, CheckOutcome, ErrorCode, Lifecycle},
    product::{Product, Scope},
    sign_in::{AuthorizationError, AuthorizationErrorCode as Code, AuthorizationRequest},
    tenancy::Project,
    web_url::RedirectUrl,
};

use super::{AuthorizeError, AuthorizeOutcome, BrowserVisit, Client, SignIns, new_ended_sign_in, page::ProofState};
use crate::{
    checks::{CreateError, ReadError},
    ports::{
        sign_in::{SignInCheck, SignInEnd},
        store::StoreError,
    },
    rate_limits::RateLimitClass,
    silent::{BrowserKey, DeviceArrival, NextStep, RedeemError, RedirectError},
};

impl SignIns {
    /// Takes a request for a token of CAMARA's APIs.
    pub(super) async fn authorize_by_network(
        &self,
        client: &Client,
        request: &AuthorizationRequest,
        visit: &BrowserVisit<'_>,
    ) -> Result<AuthorizeOutcome, AuthorizeError> {
        let product = request.scopes.camara_scopes().map_or(Product::Discovery, authenticating_product);
        self.begin_silently(client, request, None, product, visit).await
    }

    /// Takes an authentication request with `prompt=none` that no session answers.
    pub(super) async fn authorize_silently(
        &self,
        client: &Client,
        request: &AuthorizationRequest,
        expected_subject: Option<String>,
        visit: &BrowserVisit<'_>,
    ) -> Result<AuthorizeOutcome, AuthorizeError> {
        self.begin_silently(client, request, expected_subject, Product::Discovery, visit).await
    }

    async fn begin_silently(
        &self,
        client: &Client,
        request: &AuthorizationRequest,
        expected_subject: Option<String>,
        product: Product,
        visit: &BrowserVisit<'_>,
    ) -> Result<AuthorizeOutcome, AuthorizeError> {
        let project = &client.project;
        let refuse = |error: &AuthorizationError| {
            let (code, state) = (error.code.into_str(), request.state.as_deref());
            let location = self.error_redirect_url(&request.redirect_uri, state, code, &error.description);
            Ok(AuthorizeOutcome::Return(location))
        };
        if !(visit.is_navigation && self.can_identify(project, product, visit)) {
            return refuse(&not_recognised());
        }
        let now = self.context.now();
        let own = self.context.control_plane.rate_limit_overrides(project.workspace);
        if !self
            .rate_limiter
            .limit_workspace(RateLimitClass::SilentAuthorization, project.workspace, &own, now)
            .admitted
        {
            let description = "the workspace has too many requests at the moment";
            return refuse(&AuthorizationError::new(Code::TemporarilyUnavailable, description));
        }
        let mut record = self.new_record(client, request, expected_subject, None, now)?;
        let (id, browser_key) = (record.id, self.new_browser_key(record.id)?);
        let return_url = RedirectUrl::from_stored(&self.return_url(&self.page_token(id)?));
        let return_url = return_url.map_err(|error| StoreError::Refused(error.to_string()))?;
        let created = async {
            let new = self.silent.new_check_without_number(project, product, &return_url)?;
            let check = new.check.id;
            record.check = Some(SignInCheck { product, id: check });
            // Without its check, the sign-in just expires, so that the two can be stored at the same time.
            tokio::try_join!(
                async { Ok(self.store.create_sign_in(record).await?) },
                self.silent.create_without_number(new)
            )?;
            Ok(check)
        };
        let check = match created.await {
            Ok(check) => check,
            Err(CreateError::Store(error)) => return Err(error.into()),
            Err(_) => return refuse(&not_recognised()),
        };
        // The client of an API may be an app whose HTTP client keeps no cookies. Its code verifier and `state` bind the
        // response to the request.
        let browser = request.scopes.sign_in_scopes().is_some().then_some(browser_key);
        let key: Option<&BrowserKey> = browser.as_ref();
        let arrival =
            DeviceArrival { product, check, sim: visit.sim, address: visit.address, browser: key, has_wallet: false };
        let error = match self.silent.start_redirect(arrival).await {
            Ok(NextStep::Redirect(location)) => {
                return Ok(AuthorizeOutcome::Operator { location, browser: browser.map(|key| (id, key)) });
            }
            Ok(NextStep::Finish(_)) => self.unrecognised_device_error(project, product, check).await?,
            Err(RedirectError::Store(error)) => return Err(error.into()),
            Err(_) => not_recognised(),
        };
        let end = SignInEnd::Failed { error: format!("{} {}", error.code, error.description) };
        self.store
            .end_sign_in(new_ended_sign_in(project.id, id, &request.scopes, end, None, self.context.now()))
            .await?;
        refuse(&error)
    }

    fn can_identify(&self, project: &Project, product: Product, visit: &BrowserVisit<'_>) -> bool {
        project.products.contains(&product)
            && self.operators.for_mode(project.mode).may_identify_device(project, product, visit.address, visit.sim)
    }

    /// Returns the error for a device that the operator has not recognised.
    pub(super) async fn unrecognised_device_error(
        &self,
        project: &Project,
        product: Product,
        check: CheckId,
    ) -> Result<AuthorizationError, StoreError> {
        match self.silent.silent_check(project.id, product, check).await {
            Ok(check) => Ok(match check.state {
                Lifecycle::Concluded { outcome: CheckOutcome::Error(code), .. } => network_authentication_error(code),
                _ => not_recognised(),
            }),
            Err(ReadError::Store(error)) => Err(error),
            Err(_) => Ok(not_recognised()),
        }
    }

    /// Returns how the operator has recognised the device of a request whose number is not known yet.
    pub(super) async fn device_proof(
        &self,
        project: &Project,
        check: CheckId,
        code: Option<&str>,
    ) -> Result<ProofState, StoreError> {
        let Some(code) = code else { return Ok(ProofState::AskAgain) };
        match self.silent.is_device_recognised(project.id, check, code).await {
            Ok(true) => Ok(ProofState::Recognised),
            Ok(false) | Err(RedeemError::NotReady) => Ok(ProofState::Open),
            Err(RedeemError::Read(ReadError::Store(error))) => Err(error),
            Err(_) => Ok(ProofState::AskAgain),
        }
    }
}

/// Fails unless a client may ask for these scopes by network authentication.
pub(super) fn require_permitted_network_scopes(
    client: &Client,
    scopes: &CamaraScopes,
) -> Result<(), AuthorizationError> {
    if client.project.configuration.sign_in.is_public_client() {
        let description = "CAMARA's APIs need a client that authenticates; see `token_endpoint_auth_method`";
        return Err(AuthorizationError::new(Code::UnauthorizedClient, description));
    }
    require_permitted_scopes(client, scopes)?;
    let product = authenticating_product(scopes);
    if !client.project.products.contains(&product) {
        let description = format!("these scopes need the product `{product}`, by which the operator finds the number");
        return Err(AuthorizationError::new(Code::InvalidScope, description));
    }
    Ok(())
}

/// Fails unless a client may ask for these scopes at all.
pub(crate) fn require_permitted_scopes(client: &Client, scopes: &CamaraScopes) -> Result<(), AuthorizationError> {
    let invalid = |description: String| Err(AuthorizationError::new(Code::InvalidScope, description));
    let Client { credential, project } = client;
    if !project.configuration.camara.purposes.contains(scopes.purpose()) {
        return invalid(format!("`configuration.camara.purposes` does not contain `{}`", scopes.purpose()));
    }
    for operation in scopes.operations() {
        let product = operation.product();
        if !(project.products.contains(&product) && credential.scopes.contains(&Scope::Product(product))) {
            return invalid(format!("`{operation}` needs the product `{product}` of the project and its credential"));
        }
    }
    Ok(())
}

/// The product by which the operator recognises the device. Only a question about a number needs no number first.
fn authenticating_product(scopes: &CamaraScopes) -> Product {
    let only_verifies = scopes.operations().all(|operation| operation.product() == Product::SecureSna);
    if only_verifies { Product::SecureSna } else { Product::Discovery }
}

fn not_recognised() -> AuthorizationError {
    AuthorizationError::new(Code::LoginRequired, "no mobile operator recognises the device")
}

fn network_authentication_error(code: ErrorCode) -> AuthorizationError {
    match code {
        ErrorCode::InternalError => AuthorizationError::new(Code::ServerError, "internal error"),
        ErrorCode::MnoTimeout | ErrorCode::MnoServerError | ErrorCode::MnoResponseError => {
            AuthorizationError::new(Code::TemporarilyUnavailable, "the mobile operator did not answer")
        }
        _ => not_recognised(),
    }
}
