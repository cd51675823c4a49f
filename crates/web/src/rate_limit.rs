//! Applies rate limits to requests and adds their response headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use ringtrue_engine::rate_limits::{RateLimitClass, RateLimitState};

use crate::{app::App, problem::Problem, request_context::RequestContext};

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Returns the class of the matched route, which determines the rate limit that its requests count against.
pub fn rate_limit_class(context: &RequestContext) -> Result<RateLimitClass, Problem> {
    context.route().policy.rate_limit.ok_or_else(|| Problem::internal(&"route has no rate limit"))
}

/// Counts the request against the rate limit of its IP address. Fails if the limit is exceeded.
pub fn limit_by_ip(app: &App, context: &RequestContext) -> Result<(), Problem> {
    let class = rate_limit_class(context)?;
    let now = app.engine.clock().now();
    require_within_rate_limit(context, app.engine.rate_limiter().limit_by_ip(class, context.client_ip, now))
}

/// Stores the rate limit state that the response headers show. Fails if the limit is exceeded.
pub fn require_within_rate_limit(context: &RequestContext, limit_state: RateLimitState) -> Result<(), Problem> {
    let _ = context.limit_state.set(limit_state);
    if limit_state.admitted {
        return Ok(());
    }
    let detail = format!("rate limit of {} requests per second exceeded", limit_state.limit);
    Err(Problem::too_many_requests(detail, limit_state.reset_seconds))
}

/// Writes the rate limit headers, if the route has a rate limit. A request that no extractor has counted, such as one
/// answered with 405, counts against its IP address here.
pub(crate) fn write_rate_limit_headers(app: &App, context: &RequestContext, headers: &mut HeaderMap) {
    let Some(class) = context.route().policy.rate_limit else { return };
    let limit_state = context
        .limit_state
        .get_or_init(|| app.engine.rate_limiter().limit_by_ip(class, context.client_ip, app.engine.clock().now()));
    headers.insert(X_RATELIMIT_LIMIT, HeaderValue::from(limit_state.limit));
    headers.insert(X_RATELIMIT_REMAINING, HeaderValue::from(limit_state.remaining));
    headers.insert(X_RATELIMIT_RESET, HeaderValue::from(limit_state.reset_seconds));
}
