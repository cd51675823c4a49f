//! Is it alive, is it ready, and how is it doing.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use tokio::{sync::Mutex, time::Instant};

use super::{App, Routes, json, problem::Problem};

/// How long the database's answer is good for: probes must not become load.
const FRESH: Duration = Duration::from_millis(500);
/// A probe that waits longer is a failed one.
const PATIENCE: Duration = Duration::from_secs(3);

/// When the database was asked last, and what it said.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<Option<(Instant, Answer)>>);

type Answer = Result<(), Arc<str>>;

pub fn routes() -> Routes {
    Routes::default().get("/livez", livez).get("/readyz", readyz)
}

async fn livez() -> Response {
    json(StatusCode::OK, &json!({"status": "alive"}))
}

/// Whether this node should be sent requests. The schema was checked when the store was opened.
async fn readyz(State(app): State<App>) -> Response {
    if app.shutdown.is_cancelled() {
        return Problem::unavailable("this node is shutting down").into_response();
    }
    if !app.engine.control_plane().keys().is_complete(app.engine.clock().now()) {
        return Problem::unavailable("keys: not every purpose has a key in use").into_response();
    }
    match database(&app).await {
        Ok(()) => json(StatusCode::OK, &json!({"status": "ready"})),
        Err(reason) => Problem::unavailable(format!("database: {reason}")).into_response(),
    }
}

async fn database(app: &App) -> Answer {
    let mut last = app.readiness.0.lock().await;
    if let Some((at, answer)) = &*last
        && at.elapsed() < FRESH
    {
        return answer.clone();
    }
    let answer = match tokio::time::timeout(PATIENCE, app.engine.store().ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            Err("it does not answer, or takes no writes".into())
        }
        Err(_) => Err("it does not answer in time".into()),
    };
    *last = Some((Instant::now(), answer.clone()));
    answer
}

/// In the text format of OpenMetrics, for Prometheus. On the operators' listener only.
pub async fn metrics(State(app): State<App>) -> Response {
    let text = app.metrics.encode();
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
