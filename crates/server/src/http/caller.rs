//! Who calls: the access token, its scope, and the workspace's rate limit.

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
    management::Manager,
    rate_limit::{CallKind, Standing},
    tokens::TokenBearer,
};

use super::{
    App,
    arrival::{Arrival, Context},
    body,
    catalogue::Code,
    problem::Problem,
};

/// A scope that a handler asks for in its signature.
pub trait Required: Send + Sync + 'static {
    const SCOPE: Scope;
}

pub mod scope {
    //! One type for each scope that some handler requires.

    use ringtrue_domain::product::{Product, Scope};

    #[derive(Debug)]
    pub struct Management;

    impl super::Required for Management {
        const SCOPE: Scope = Scope::Management;
    }

    #[derive(Debug)]
    pub struct ReverseSms;

    impl super::Required for ReverseSms {
        const SCOPE: Scope = Scope::Product(Product::ReverseSms);
    }

    #[derive(Debug)]
    pub struct SecureSna;

    impl super::Required for SecureSna {
        const SCOPE: Scope = Scope::Product(Product::SecureSna);
    }

    #[derive(Debug)]
    pub struct Discovery;

    impl super::Required for Discovery {
        const SCOPE: Scope = Scope::Product(Product::Discovery);
    }

    #[derive(Debug)]
    pub struct SimSwap;

    impl super::Required for SimSwap {
        const SCOPE: Scope = Scope::Product(Product::SimSwap);
    }

    #[derive(Debug)]
    pub struct Eligibility;

    impl super::Required for Eligibility {
        const SCOPE: Scope = Scope::Product(Product::Eligibility);
    }
}

/// An authenticated caller whose token has the scope `S` and whose workspace is within its rate limit.
#[derive(Debug)]
pub struct Caller<S> {
    bearer: TokenBearer,
    arrival: Arc<Arrival>,
    scope: PhantomData<S>,
}

impl Caller<scope::Management> {
    pub fn manager(&self) -> Manager {
        Manager {
            workspace: self.bearer.owner().workspace(),
            actor: Actor::Credential(self.bearer.credential.client_id.clone()),
            request_id: Some(self.arrival.request_id.as_str().to_owned()),
        }
    }
}

/// A caller for a project: whoever forgets to ask for one has no project to pass on.
#[derive(Debug)]
pub struct ProjectCaller<S> {
    project: Arc<Project>,
    credential: Arc<Credential>,
    arrival: Arc<Arrival>,
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

    /// The JSON body of the call, unparsed. It leaves a trace in the log of requests.
    pub async fn read_json(&self, app: &App, request: Request) -> Result<Bytes, Problem> {
        let body = body::read_json(app, request).await?;
        if let Some(trail) = &self.arrival.trail {
            trail.brings(&body);
        }
        Ok(body)
    }

    /// The same, for what is audited.
    pub fn manager(&self) -> Manager {
        Manager {
            workspace: self.project.workspace,
            actor: Actor::Credential(self.credential.client_id.clone()),
            request_id: Some(self.arrival.request_id.as_str().to_owned()),
        }
    }
}

impl<S: Required> FromRequestParts<Context> for ProjectCaller<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let Caller { bearer, arrival, .. } = Caller::<S>::from_request_parts(parts, context).await?;
        leave(&arrival, Arc::clone(&bearer.credential));
        let idempotency_scope = bearer.idempotency_scope();
        let (project, idempotency_scope) = bearer
            .project
            .zip(idempotency_scope)
            .ok_or_else(|| Problem::new(Code::Unauthorized, "the project of the access token does not exist"))?;
        Ok(ProjectCaller { project, credential: bearer.credential, arrival, idempotency_scope, scope: PhantomData })
    }
}

impl<S: Required> FromRequestParts<Context> for Caller<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, Context { app, arrival }: &Context) -> Result<Self, Problem> {
        let meter = metered(arrival)?;
        let bearer = match authenticate(app, parts, arrival.at) {
            Ok(bearer) => bearer,
            Err(problem) => {
                if let (Some(trail), Some(client)) = (&arrival.trail, whose(app, &parts.headers)) {
                    trail.set_claimed_client(client);
                }
                meter.record(stranger(app, meter.kind, arrival.address))?;
                return Err(problem);
            }
        };
        if let Some(project) = &bearer.project {
            let _ = arrival.project_mode.set(project.mode);
        }
        let workspace = bearer.owner().workspace();
        let own = app.engine.control_plane().own_limits(workspace);
        let standing = app.engine.limiter().workspace(meter.kind, workspace, &own, arrival.at);
        let admitted = meter.record(standing).and_then(|()| require(&bearer, S::SCOPE));
        admitted.inspect_err(|_| leave(arrival, Arc::clone(&bearer.credential)))?;
        Ok(Caller { bearer, arrival: Arc::clone(arrival), scope: PhantomData })
    }
}

/// A device on its way to the simulated operator: a stranger, counted by its address.
#[derive(Clone, Copy, Debug)]
pub struct Device;

impl FromRequestParts<Context> for Device {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, Context { app, arrival }: &Context) -> Result<Self, Problem> {
        let meter = metered(arrival)?;
        meter.record(stranger(app, meter.kind, arrival.address))?;
        Ok(Device)
    }
}

/// A device that opens the URL of a check. It is counted once its token is known to be right or wrong: one address
/// serves thousands of subscribers.
#[derive(Debug)]
pub struct Visitor(Arc<Arrival>);

impl FromRequestParts<Context> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, context: &Context) -> Result<Self, Infallible> {
        Ok(Visitor(Arc::clone(&context.arrival)))
    }
}

impl Visitor {
    pub fn address(&self) -> IpAddr {
        self.0.address
    }

    /// Counts a visit with the token of this check.
    pub fn count_visit(&self, app: &App, check: CheckId) -> Result<(), Problem> {
        let visit = app.engine.limiter().visit(check, app.engine.clock().now());
        metered(&self.0)?.record(visit).map_err(|mut problem| {
            problem.detail = format!("the URL of this check was opened {} times already", visit.limit);
            problem
        })
    }

    /// Counts a visit without the token of any check.
    pub fn count_stranger(&self, app: &App) -> Result<(), Problem> {
        let meter = metered(&self.0)?;
        meter.record(stranger(app, meter.kind, self.0.address))
    }
}

fn metered(arrival: &Arrival) -> Result<&Meter, Problem> {
    let problem = || Problem::internal(&"a route that must know who calls is not metered");
    arrival.meter.as_ref().ok_or_else(problem)
}

/// RFC 6750: exactly one token, in the `Authorization` header.
fn authenticate(app: &App, parts: &Parts, now: Timestamp) -> Result<TokenBearer, Problem> {
    let in_query = parts
        .uri
        .query()
        .is_some_and(|query| url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token"));
    let mut values = parts.headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() || (first.is_some() && in_query) {
        return Err(Problem::new(Code::InvalidRequest, "send one access token, in one `Authorization` header")
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer error="invalid_request""#)));
    }
    let token = first.and_then(bearer_token).ok_or_else(|| {
        Problem::new(Code::Unauthorized, "send an access token as `Authorization: Bearer <token>`")
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    })?;
    app.engine.check_token(token, now).map_err(|rejected| {
        Problem::new(Code::Unauthorized, rejected.to_string())
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer error="invalid_token""#))
    })
}

/// Whose a token is that was not taken, if it is one of ours.
fn whose(app: &App, headers: &HeaderMap) -> Option<Arc<Credential>> {
    app.engine.whose_token(headers.get(header::AUTHORIZATION).and_then(bearer_token)?)
}

/// Says for the log of requests whose this one is.
fn leave(arrival: &Arrival, client: Arc<Credential>) {
    if let Some(trail) = &arrival.trail {
        trail.set_client(client);
    }
}

fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"bearer ") && token.is_ascii()).then(|| token.trim_ascii_start())
}

fn require(bearer: &TokenBearer, scope: Scope) -> Result<(), Problem> {
    if bearer.scope != scope {
        let detail = format!("this call needs a token with the scope `{scope}`; this one has `{}`", bearer.scope);
        return Err(insufficient(detail, scope));
    }
    bearer.granted.map_err(|error| insufficient(error.to_string(), scope))
}

fn insufficient(detail: String, scope: Scope) -> Problem {
    let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
    let challenge = HeaderValue::from_str(&challenge).unwrap_or(HeaderValue::from_static("Bearer"));
    Problem::new(Code::Forbidden, detail).with(header::WWW_AUTHENTICATE, challenge)
}

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// How a metered call stands to its rate limit: told by the extractor, written into the answer's headers by the edge.
#[derive(Debug)]
pub struct Meter {
    kind: CallKind,
    standing: OnceLock<Standing>,
}

impl Meter {
    /// Every answer under these paths tells the caller's standing, errors included.
    pub fn of(method: &Method, path: &str) -> Option<Self> {
        let kind = match path.strip_prefix("/v1/")?.split('/').next()? {
            "management" => CallKind::Management,
            "number-verification" if path.ends_with("/redirect") => CallKind::Device,
            "eligibility" => CallKind::Eligibility,
            "number-verification" | "sim-swap-checks" | "sandbox" if *method == Method::POST => CallKind::Create,
            "number-verification" | "sim-swap-checks" | "sandbox" => CallKind::Read,
            _ => return None,
        };
        Some(Meter { kind, standing: OnceLock::new() })
    }

    fn record(&self, standing: Standing) -> Result<(), Problem> {
        let _ = self.standing.set(standing);
        if standing.admitted {
            return Ok(());
        }
        let detail = format!("the limit of {} requests per second is reached", standing.limit);
        Err(Problem::new(Code::TooManyRequests, detail).retry_after(standing.reset))
    }

    /// An answer that no handler gave, such as a 405, is counted to the address that asked.
    pub fn write(&self, app: &App, address: IpAddr, headers: &mut HeaderMap) {
        let standing = self.standing.get_or_init(|| stranger(app, self.kind, address));
        headers.insert(LIMIT, decimal(standing.limit));
        headers.insert(REMAINING, decimal(standing.remaining));
        headers.insert(RESET, decimal(standing.reset));
    }
}

/// A number in a header. The conversion that comes with the type costs three times as much, for every answer.
fn decimal(number: u32) -> HeaderValue {
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

fn stranger(app: &App, kind: CallKind, address: IpAddr) -> Standing {
    app.engine.limiter().stranger(kind, address, app.engine.clock().now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_headers_are_decimal() {
        for number in [0, 1, 9, 10, 99, 100, 1_000_000, u32::MAX] {
            assert_eq!(decimal(number).to_str().unwrap(), number.to_string());
        }
    }
}
