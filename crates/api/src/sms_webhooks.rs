//! Receives webhooks of SMS vendors, on a listener separate from the public API.

use std::{fmt, sync::Arc};

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, header};
use ringtrue_operators::sms_http::{Webhook, WebhookRequest};
use ringtrue_web::{
    app::App, body::read_limited, parameters::PathParameters, problem::Problem, request_context::RequestContext,
    routes::Routes,
};

const MAX_WEBHOOK_BYTES: usize = 64 * 1024;

/// Finds the connectors that receive SMS by webhook.
pub trait Webhooks: fmt::Debug + Send + Sync {
    /// Returns `None` if no connector with this name receives webhooks.
    fn webhook(&self, connector: &str) -> Option<Arc<Webhook>>;
}

pub fn routes(webhooks: Arc<dyn Webhooks>) -> Routes {
    let (plain, with_secret) = ("/southbound/sms/{connector}", "/southbound/sms/{connector}/{secret}");
    Routes::default()
        .get(plain, receive)
        .post(plain, receive)
        .get(with_secret, receive)
        .post(with_secret, receive)
        .with_extension(webhooks)
}

/// Passes the request to the connector named in the path and returns the response in the vendor's format.
async fn receive(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    Extension(webhooks): Extension<Arc<dyn Webhooks>>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let webhook = ids.get("connector").and_then(|name| webhooks.webhook(name)).ok_or_else(Problem::not_found)?;
    let (parts, body) = request.into_parts();
    let body = read_limited(&app, &parts.headers, body, MAX_WEBHOOK_BYTES).await?;
    let reply = webhook
        .handle(WebhookRequest {
            method: &parts.method,
            path_and_query: parts.uri.path_and_query().map_or("/", |target| target.as_str()),
            headers: &parts.headers,
            body: &body,
            peer: context.client_ip,
        })
        .await;
    let mut response = Response::new(reply.body.into());
    *response.status_mut() = reply.status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    Ok(response)
}
