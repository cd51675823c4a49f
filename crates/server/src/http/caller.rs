//! Extractors that authenticate the caller, check the token's scope and apply rate limits.

use std::{
    convert::Infallible,
    marker::PhantomData,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use axum::extract::{FromRequestParts, Request};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts};
use jiff::Timestamp;
use ringtrue_domain::{
    audit::Actor,
    lifecycle::CheckId,
    product::Scope,
    tenancy::{Credential, Project},
};
use ringtrue_engine::{
    idempotency::IdempotencyScope,
    management::ManagementActor,
    rate_limit::{RateLimitClass, RateLimitState},
    tokens::TokenBearer,
};

use super::{
    App, body,
    error_catalog::ProblemCode,
    problem::Problem,
    request_context::{HandlerState, RequestContext},
};

/// A scope that a handler requires by naming its type in the signature.
pub trait RequiredScope: Send + Sync + 'static {
    const SCOPE: Scope;
}

pub mod scope {
    //! One type for each scope.

    use ringtrue_domain::product::{Product, Scope};

    #[derive(Debug)]
    pub struct Management;

    impl super::RequiredScope for Management {
        const SCOPE: Scope = Scope::Management;
    }

    #[derive(Debug)]
    pub struct ReverseSms;

    impl super::RequiredScope for ReverseSms {
        const SCOPE: Scope = Scope::Product(Product::ReverseSms);
    }

    #[derive(Debug)]
    pub struct SecureSna;

    impl super::RequiredScope for SecureSna {
        const SCOPE: Scope = Scope::Product(Product::SecureSna);
    }

    #[derive(Debug)]
    pub struct Discovery;

    impl super::RequiredScope for Discovery {
        const SCOPE: Scope = Scope::Product(Product::Discovery);
    }

    #[derive(Debug)]
    pub struct SimSwap;

    impl super::RequiredScope for SimSwap {
        const SCOPE: Scope = Scope::Product(Product::SimSwap);
    }

    #[derive(Debug)]
    pub struct Eligibility;

    impl super::RequiredScope for Eligibility {
        const SCOPE: Scope = Scope::Product(Product::Eligibility);
    }
}

/// An authenticated caller whose token has the scope `S` and whose workspace is within its rate limit.
#[derive(Debug)]
pub struct Caller<S> {
    bearer: TokenBearer,
    context: Arc<RequestContext>,
    scope: PhantomData<S>,
}

impl Caller<scope::Management> {
    pub fn manager(&self) -> ManagementActor {
        ManagementActor {
            workspace: self.bearer.owner().workspace(),
            actor: Actor::Credential(self.bearer.credential.client_id.clone()),
            request_id: Some(self.context.request_id.as_str().to_owned()),
        }
    }
}

/// A caller authenticated for a project. Handlers can only obtain a project through this extractor.
#[derive(Debug)]
pub struct ProjectCaller<S> {
    project: Arc<Project>,
    credential: Arc<Credential>,
    context: Arc<RequestContext>,
    idempotency_scope: IdempotencyScope,
    scope: PhantomData<S>,
}

impl<S> ProjectCaller<S> {
    pub fn idempotency_scope(&self) -> IdempotencyScope {
        self.idempotency_scope
    }

    pub fn project(&self) -> &Project {
        &self.project
    }

    pub fn into_project(self) -> Arc<Project> {
        self.project
    }

    /// Reads the JSON body without parsing it and attaches it to the request log entry.
    pub async fn read_json(&self, app: &App, request: Request) -> Result<Bytes, Problem> {
        let body = body::read_json(app, request).await?;
        if let Some(log_draft) = &self.context.log_draft {
            log_draft.set_body(&body);
        }
        Ok(body)
    }

    /// The caller as the actor of audited changes.
    pub fn manager(&self) -> ManagementActor {
        ManagementActor {
            workspace: self.project.workspace,
            actor: Actor::Credential(self.credential.client_id.clone()),
            request_id: Some(self.context.request_id.as_str().to_owned()),
        }
    }
}

impl<S: RequiredScope> FromRequestParts<HandlerState> for ProjectCaller<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, Problem> {
        let Caller { bearer, context, .. } = Caller::<S>::from_request_parts(parts, state).await?;
        log_client(&context, Arc::clone(&bearer.credential));
        let idempotency_scope = bearer.idempotency_scope();
        let (project, idempotency_scope) = bearer
            .project
            .zip(idempotency_scope)
            .ok_or_else(|| Problem::new(ProblemCode::Unauthorized, "the project of the access token does not exist"))?;
        Ok(ProjectCaller { project, credential: bearer.credential, context, idempotency_scope, scope: PhantomData })
    }
}

impl<S: RequiredScope> FromRequestParts<HandlerState> for Caller<S> {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        HandlerState { app, context }: &HandlerState,
    ) -> Result<Self, Problem> {
        let rate_limit = rate_limit_of(context)?;
        let bearer = match authenticate(app, parts, context.received_at) {
            Ok(bearer) => bearer,
            Err(problem) => {
                if let (Some(log_draft), Some(client)) = (&context.log_draft, credential_of(app, &parts.headers)) {
                    log_draft.set_claimed_client(client);
                }
                rate_limit.record(limit_by_ip(app, rate_limit.class, context.client_ip))?;
                return Err(problem);
            }
        };
        if let Some(project) = &bearer.project {
            let _ = context.project_mode.set(project.mode);
        }
        let workspace = bearer.owner().workspace();
        let own = app.engine.control_plane().rate_limit_overrides(workspace);
        let limit_state =
            app.engine.rate_limiter().limit_workspace(rate_limit.class, workspace, &own, context.received_at);
        let admitted = rate_limit.record(limit_state).and_then(|()| require_scope(&bearer, S::SCOPE));
        admitted.inspect_err(|_| log_client(context, Arc::clone(&bearer.credential)))?;
        Ok(Caller { bearer, context: Arc::clone(context), scope: PhantomData })
    }
}

/// A simulated device at the sandbox operator's authorization endpoint, rate limited by IP address.
#[derive(Clone, Copy, Debug)]
pub struct SandboxDevice;

impl FromRequestParts<HandlerState> for SandboxDevice {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, HandlerState { app, context }: &HandlerState) -> Result<Self, Problem> {
        let rate_limit = rate_limit_of(context)?;
        rate_limit.record(limit_by_ip(app, rate_limit.class, context.client_ip))?;
        Ok(SandboxDevice)
    }
}

/// A device that opens a check URL. It is counted after its token was verified: carrier-grade NAT puts thousands of
/// subscribers behind one address.
#[derive(Debug)]
pub struct DeviceVisitor(Arc<RequestContext>);

impl FromRequestParts<HandlerState> for DeviceVisitor {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &HandlerState) -> Result<Self, Infallible> {
        Ok(DeviceVisitor(Arc::clone(&state.context)))
    }
}

impl DeviceVisitor {
    pub fn address(&self) -> IpAddr {
        self.0.client_ip
    }

    /// Counts a visit with a valid token against the limit of the check.
    pub fn count_visit(&self, app: &App, check: CheckId) -> Result<(), Problem> {
        let visit = app.engine.rate_limiter().limit_device_visit(check, app.engine.clock().now());
        rate_limit_of(&self.0)?.record(visit).map_err(|mut problem| {
            problem.detail = format!("the URL of this check was already opened {} times", visit.limit);
            problem
        })
    }

    /// Counts a visit without a valid token against the limit of the IP address.
    pub fn count_invalid_visit(&self, app: &App) -> Result<(), Problem> {
        let rate_limit = rate_limit_of(&self.0)?;
        rate_limit.record(limit_by_ip(app, rate_limit.class, self.0.client_ip))
    }
}

fn rate_limit_of(context: &RequestContext) -> Result<&RequestRateLimit, Problem> {
    let problem = || Problem::internal(&"route has no rate limit");
    context.rate_limit.as_ref().ok_or_else(problem)
}

/// Accepts exactly one token, in the `Authorization` header (RFC 6750).
fn authenticate(app: &App, parts: &Parts, now: Timestamp) -> Result<TokenBearer, Problem> {
    let in_query = parts
        .uri
        .query()
        .is_some_and(|query| url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token"));
    let mut values = parts.headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() || (first.is_some() && in_query) {
        return Err(Problem::new(
            ProblemCode::InvalidRequest,
            "send exactly one access token in one `Authorization` header",
        )
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer error="invalid_request""#)));
    }
    let token = first.and_then(bearer_token).ok_or_else(|| {
        Problem::new(ProblemCode::Unauthorized, "send an access token as `Authorization: Bearer <token>`")
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    })?;
    app.engine.verify_token(token, now).map_err(|rejected| {
        Problem::new(ProblemCode::Unauthorized, rejected.to_string())
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer error="invalid_token""#))
    })
}

/// The credential named in a rejected token, if we issued the token.
fn credential_of(app: &App, headers: &HeaderMap) -> Option<Arc<Credential>> {
    app.engine.credential_of_token(headers.get(header::AUTHORIZATION).and_then(bearer_token)?)
}

/// Sets the client of the request log entry.
fn log_client(context: &RequestContext, client: Arc<Credential>) {
    if let Some(log_draft) = &context.log_draft {
        log_draft.set_client(client);
    }
}

fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"bearer ") && token.is_ascii()).then(|| token.trim_ascii_start())
}

fn require_scope(bearer: &TokenBearer, scope: Scope) -> Result<(), Problem> {
    if bearer.scope != scope {
        let detail = format!("this call requires a token with the scope `{scope}`; the token has `{}`", bearer.scope);
        return Err(insufficient_scope(detail, scope));
    }
    bearer.granted.map_err(|error| insufficient_scope(error.to_string(), scope))
}

fn insufficient_scope(detail: String, scope: Scope) -> Problem {
    let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
    let challenge = HeaderValue::from_str(&challenge).unwrap_or(HeaderValue::from_static("Bearer"));
    Problem::new(ProblemCode::Forbidden, detail).with_header(header::WWW_AUTHENTICATE, challenge)
}

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Rate limit of one request. An extractor records the decision; the middleware writes it into the response headers.
#[derive(Debug)]
pub struct RequestRateLimit {
    class: RateLimitClass,
    limit_state: OnceLock<RateLimitState>,
}

impl RequestRateLimit {
    /// Selects the limit by method and path. All responses under these paths carry rate limit headers, errors included.
    pub fn for_path(method: &Method, path: &str) -> Option<Self> {
        let class = match path.strip_prefix("/v1/")?.split('/').next()? {
            "management" => RateLimitClass::Management,
            "number-verification" if path.ends_with("/redirect") => RateLimitClass::Device,
            "eligibility" => RateLimitClass::Eligibility,
            "number-verification" | "sim-swap-checks" | "sandbox" if *method == Method::POST => RateLimitClass::Create,
            "number-verification" | "sim-swap-checks" | "sandbox" => RateLimitClass::Read,
            _ => return None,
        };
        Some(RequestRateLimit { class, limit_state: OnceLock::new() })
    }

    fn record(&self, limit_state: RateLimitState) -> Result<(), Problem> {
        let _ = self.limit_state.set(limit_state);
        if limit_state.admitted {
            return Ok(());
        }
        let detail = format!("rate limit of {} requests per second exceeded", limit_state.limit);
        Err(Problem::new(ProblemCode::TooManyRequests, detail).retry_after(limit_state.reset_seconds))
    }

    /// Requests that reached no extractor, such as those answered with 405, count against the IP address.
    pub fn write_headers(&self, app: &App, address: IpAddr, headers: &mut HeaderMap) {
        let limit_state = self.limit_state.get_or_init(|| limit_by_ip(app, self.class, address));
        headers.insert(X_RATELIMIT_LIMIT, decimal_header(limit_state.limit));
        headers.insert(X_RATELIMIT_REMAINING, decimal_header(limit_state.remaining));
        headers.insert(X_RATELIMIT_RESET, decimal_header(limit_state.reset_seconds));
    }
}

/// Faster than `HeaderValue::from(u32)`, which is measurable as three of these run for every response.
fn decimal_header(number: u32) -> HeaderValue {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    if let Some(digit) = DIGITS.get(number as usize) {
        return HeaderValue::from_static(digit);
    }
    let (mut digits, mut first, mut rest) = ([b'0'; 10], 9, number);
    while rest >= 10 {
        digits[first] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        (first, rest) = (first - 1, rest / 10);
    }
    digits[first] = b'0' + u8::try_from(rest).unwrap_or(0);
    HeaderValue::from_bytes(&digits[first..]).unwrap_or_else(|_| HeaderValue::from(number))
}

fn limit_by_ip(app: &App, class: RateLimitClass, address: IpAddr) -> RateLimitState {
    app.engine.rate_limiter().limit_by_ip(class, address, app.engine.clock().now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_header_matches_to_string() {
        for number in [0, 1, 9, 10, 99, 100, 1_000_000, u32::MAX] {
            assert_eq!(decimal_header(number).to_str().unwrap(), number.to_string());
        }
    }
}
