//! Liveness, readiness and metrics endpoints.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_web::{app::App, problem::Problem, response::json_response, routes::Routes};
use serde_json::json;
use tokio::{sync::Mutex, time::Instant};

/// Time for which a ping result is cached. A ping writes to the disk, so frequent probes must share its result.
const PING_CACHE_DURATION: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(3);

type PingResult = Result<(), Arc<str>>;

/// Time and result of the last database ping.
type LastPing = Arc<Mutex<Option<(Instant, PingResult)>>>;

pub fn routes() -> Routes {
    Routes::default().get("/readyz", readyz).with_extension(LastPing::default()).get("/livez", livez)
}

async fn livez() -> Response {
    json_response(StatusCode::OK, &json!({"status": "alive"}))
}

/// Reports whether the node can serve requests. It does not check the database schema, because the server did so when
/// it opened the store.
async fn readyz(State(app): State<App>, Extension(last_ping): Extension<LastPing>) -> Response {
    if app.shutdown.is_cancelled() {
        return Problem::unavailable("this node is shutting down").into_response();
    }
    if !app.engine.control_plane().keys().has_all_active_keys(app.engine.clock().now()) {
        return Problem::unavailable("keys: some purposes have no active key").into_response();
    }
    match ping_database(&app, &last_ping).await {
        Ok(()) => json_response(StatusCode::OK, &json!({"status": "ready"})),
        Err(reason) => Problem::unavailable(format!("database: {reason}")).into_response(),
    }
}

async fn ping_database(app: &App, last_ping: &LastPing) -> PingResult {
    let mut last = last_ping.lock().await;
    if let Some((at, result)) = &*last
        && at.elapsed() < PING_CACHE_DURATION
    {
        return result.clone();
    }
    let result = match tokio::time::timeout(PING_TIMEOUT, app.engine.store().ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "database ping failed");
            Err("no response, or not writable".into())
        }
        Err(_) => Err("ping timed out".into()),
    };
    *last = Some((Instant::now(), result.clone()));
    result
}

/// Returns the metrics in the OpenMetrics text format. Only the metrics listener serves them.
pub async fn metrics(State(app): State<App>) -> Response {
    let text = app.metrics.encode();
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
