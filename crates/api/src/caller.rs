//! Extractors that authenticate the caller, check the token's scope and apply rate limits.

use std::{convert::Infallible, marker::PhantomData, net::IpAddr, sync::Arc};

use axum::extract::{FromRequestParts, Request};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header, request::Parts};
use jiff::Timestamp;
use ringtrue_domain::{
    audit::Actor,
    lifecycle::CheckId,
    product::Scope,
    tenancy::{Credential, Project},
};
use ringtrue_engine::{actor::ManagementActor, idempotency::IdempotencyScope, tokens::TokenBearer};
use ringtrue_web::{
    app::App,
    body,
    error_catalog::ProblemCode,
    problem::Problem,
    rate_limit::{limit_by_ip, rate_limit_class, require_within_rate_limit},
    request_context::{HandlerState, RequestContext},
};

/// Marker type for a scope. A handler with `Caller<S>` in its signature accepts only tokens with the scope of `S`.
pub trait RequiredScope: Send + Sync + 'static {
    const SCOPE: Scope;
    /// Another scope, with which tokens are accepted as well.
    const ALTERNATIVE: Option<Scope> = None;
}

pub mod scope {
    //! Defines one type for each scope.

    use ringtrue_domain::product::{Product, Scope};

    macro_rules! scopes {
        ($($name:ident = $scope:expr;)*) => {
            $(
                #[derive(Debug)]
                pub struct $name;

                impl super::RequiredScope for $name {
                    const SCOPE: Scope = $scope;
                }
            )*
        };
    }
    scopes! {
        Management = Scope::Management;
        ReverseSms = Scope::Product(Product::ReverseSms);
        SecureSna = Scope::Product(Product::SecureSna);
        Discovery = Scope::Product(Product::Discovery);
        SimSwap = Scope::Product(Product::SimSwap);
        Eligibility = Scope::Product(Product::Eligibility);
        Verification = Scope::Product(Product::Verification);
    }

    /// The scope of Secure SNA checks or that of verifications, whose steps may be such checks.
    #[derive(Debug)]
    pub struct SecureSnaOrVerification;

    impl super::RequiredScope for SecureSnaOrVerification {
        const SCOPE: Scope = Scope::Product(Product::SecureSna);
        const ALTERNATIVE: Option<Scope> = Some(Scope::Product(Product::Verification));
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
    pub fn management_actor(&self) -> ManagementActor {
        ManagementActor {
            workspace: self.bearer.owner().workspace(),
            actor: Actor::Credential(self.bearer.credential.client_id.clone()),
            request_id: Some(self.context.request_id.as_str().to_owned()),
        }
    }
}

/// A caller whose token belongs to a project. Handlers get the project only from this extractor, so they cannot skip
/// authentication.
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

    pub fn received_at(&self) -> Timestamp {
        self.context.received_at
    }

    /// Reads the JSON body without parsing it and attaches it to the request log entry.
    pub async fn read_json_bytes(&self, app: &App, request: Request) -> Result<Bytes, Problem> {
        let body = body::read_json_bytes(app, request).await?;
        self.context.log_body(&body);
        Ok(body)
    }

    /// Like [`read_json_bytes`](Self::read_json_bytes), for a call whose body is optional.
    pub async fn read_optional_json_bytes(&self, app: &App, request: Request) -> Result<Option<Bytes>, Problem> {
        let body = body::read_optional_json_bytes(app, request).await?;
        if let Some(body) = &body {
            self.context.log_body(body);
        }
        Ok(body)
    }

    /// Returns the caller as the actor that the audit log records for a change.
    pub fn management_actor(&self) -> ManagementActor {
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
        context.log_client(Arc::clone(&bearer.credential));
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
        let class = rate_limit_class(context)?;
        let bearer = match authenticate(app, parts, context.received_at) {
            Ok(bearer) => bearer,
            Err(problem) => {
                context.log_claimed_client(|| claimed_credential(app, &parts.headers));
                limit_by_ip(app, context)?;
                return Err(problem);
            }
        };
        if let Some(project) = &bearer.project {
            let _ = context.project_mode.set(project.mode);
        }
        let workspace = bearer.owner().workspace();
        let own = app.engine.control_plane().rate_limit_overrides(workspace);
        let limit_state = app.engine.rate_limiter().limit_workspace(class, workspace, &own, context.received_at);
        let admitted = require_within_rate_limit(context, limit_state).and_then(|()| require_scope::<S>(&bearer));
        admitted.inspect_err(|_| context.log_client(Arc::clone(&bearer.credential)))?;
        Ok(Caller { bearer, context: Arc::clone(context), scope: PhantomData })
    }
}

/// Extractor for simulated devices at the sandbox operator's authorization endpoint. Counts the request against the
/// rate limit of its IP address.
#[derive(Clone, Copy, Debug)]
pub struct SandboxDevice;

impl FromRequestParts<HandlerState> for SandboxDevice {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, HandlerState { app, context }: &HandlerState) -> Result<Self, Problem> {
        limit_by_ip(app, context)?;
        Ok(SandboxDevice)
    }
}

/// A device that opens a check URL. The handler counts the visit after it has verified the token: a visit with a valid
/// token counts against the check, not the IP address, because carrier-grade NAT puts thousands of subscribers behind
/// one address.
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
        require_within_rate_limit(&self.0, visit).map_err(|mut problem| {
            problem.detail = format!("the URL of this check was already opened {} times", visit.limit);
            problem
        })
    }

    /// Counts a visit without a valid token against the limit of the IP address.
    pub fn count_invalid_visit(&self, app: &App) -> Result<(), Problem> {
        limit_by_ip(app, &self.0)
    }
}

/// Verifies the access token, which must be in the only `Authorization` header (RFC 6750).
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
    app.engine.tokens.verify_token(token, now).map_err(|rejected| {
        Problem::new(ProblemCode::Unauthorized, rejected.to_string())
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer error="invalid_token""#))
    })
}

/// Returns whether the access token of a request is still valid. Open streams check this repeatedly, because the token
/// may expire or be revoked after the stream was opened.
pub fn is_token_valid(app: &App, headers: &HeaderMap) -> bool {
    let token = headers.get(header::AUTHORIZATION).and_then(bearer_token);
    token.is_some_and(|token| app.engine.tokens.verify_token(token, app.engine.clock().now()).is_ok())
}

/// Returns the credential named in a rejected token, for the request log. `None` if we did not issue the token.
fn claimed_credential(app: &App, headers: &HeaderMap) -> Option<Arc<Credential>> {
    app.engine.tokens.credential_of_token(headers.get(header::AUTHORIZATION).and_then(bearer_token)?)
}

/// Returns the token of an `Authorization` header.
pub fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"bearer ") && token.is_ascii()).then(|| token.trim_ascii_start())
}

fn require_scope<S: RequiredScope>(bearer: &TokenBearer) -> Result<(), Problem> {
    let scope = S::SCOPE;
    if bearer.scope != scope && Some(bearer.scope) != S::ALTERNATIVE {
        let alternative = S::ALTERNATIVE.map(|scope| format!(" or `{scope}`")).unwrap_or_default();
        let detail = format!(
            "this call requires a token with the scope `{scope}`{alternative}; the token has `{}`",
            bearer.scope
        );
        return Err(insufficient_scope(detail, scope));
    }
    bearer.granted.map_err(|error| insufficient_scope(error.to_string(), scope))
}

fn insufficient_scope(detail: String, scope: Scope) -> Problem {
    let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
    let challenge = HeaderValue::from_str(&challenge).unwrap_or(HeaderValue::from_static("Bearer"));
    Problem::new(ProblemCode::Forbidden, detail).with_header(header::WWW_AUTHENTICATE, challenge)
}
