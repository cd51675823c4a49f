//! The door for operators: SMS by webhook, on a listener apart from the public API.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, header};
use ringtrue_operators::sms_http::Incoming;

use super::{App, Routes, arrival::Arrival, body::read_limited, path::PathIds, problem::Problem};

/// What vendors send is far smaller.
const MAX_BODY: usize = 64 * 1024;

pub fn routes() -> Routes {
    let (plain, with_secret) = ("/southbound/sms/{connector}", "/southbound/sms/{connector}/{secret}");
    Routes::default().get(plain, receive).post(plain, receive).get(with_secret, receive).post(with_secret, receive)
}

/// Hands the request to the connector that the path names, and answers in the vendor's own words.
async fn receive(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    ids: PathIds,
    request: Request,
) -> Result<Response, Problem> {
    let webhook = ids.get("connector").and_then(|name| app.connectors.webhook(name)).ok_or_else(Problem::not_found)?;
    let (parts, body) = request.into_parts();
    let body = read_limited(&app, &parts.headers, body, MAX_BODY).await?;
    let reply = webhook
        .handle(Incoming {
            method: &parts.method,
            path_and_query: parts.uri.path_and_query().map_or("/", |target| target.as_str()),
            headers: &parts.headers,
            body: &body,
            peer: arrival.address,
        })
        .await;
    let mut response = Response::new(reply.body.into());
    *response.status_mut() = reply.status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    Ok(response)
}
