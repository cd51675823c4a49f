//! Rate limits of requests, and their response headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use ringtrue_engine::rate_limits::{RateLimitClass, RateLimitState};

use crate::{app::App, problem::Problem, request_context::RequestContext};

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Limit of the route that the request was assigned to.
pub fn rate_limit_class(context: &RequestContext) -> Result<RateLimitClass, Problem> {
    context.route().policy.rate_limit.ok_or_else(|| Problem::internal(&"route has no rate limit"))
}

/// Counts the request against the limit of its IP address.
pub fn limit_by_ip(app: &App, context: &RequestContext) -> Result<(), Problem> {
    let class = rate_limit_class(context)?;
    let now = app.engine.clock().now();
    require_admitted(context, app.engine.rate_limiter().limit_by_ip(class, context.client_ip, now))
}

/// Sets the limit that the response shows. Fails if it is exceeded.
pub fn require_admitted(context: &RequestContext, limit_state: RateLimitState) -> Result<(), Problem> {
    let _ = context.limit_state.set(limit_state);
    if limit_state.admitted {
        return Ok(());
    }
    let detail = format!("rate limit of {} requests per second exceeded", limit_state.limit);
    Err(Problem::too_many_requests(detail, limit_state.reset_seconds))
}

/// Writes the headers of a route with a rate limit. Requests that reached no extractor, such as those answered with
/// 405, count against the IP address.
pub(crate) fn write_rate_limit_headers(app: &App, context: &RequestContext, headers: &mut HeaderMap) {
    let Some(class) = context.route().policy.rate_limit else { return };
    let limit_state = context
        .limit_state
        .get_or_init(|| app.engine.rate_limiter().limit_by_ip(class, context.client_ip, app.engine.clock().now()));
    headers.insert(X_RATELIMIT_LIMIT, HeaderValue::from(limit_state.limit));
    headers.insert(X_RATELIMIT_REMAINING, HeaderValue::from(limit_state.remaining));
    headers.insert(X_RATELIMIT_RESET, HeaderValue::from(limit_state.reset_seconds));
}
