//! Redirect endpoints for devices: the check URL and the operators' callbacks. Queries contain tokens and codes and are
//! never logged.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Method, request::Parts};
use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::silent::{DeviceRequest, DeviceReturn, NextStep, RedirectError};

use super::{
    super::{
        App, Routes, caller::DeviceVisitor, detached::run_to_completion, path::PathParameters, problem::Problem,
        request_context::RequestContext,
    },
    SilentProduct,
    device_query::DeviceQuery,
    device_response::{RedirectStep, ResponseFormat, head_response, redirect},
};

pub fn routes() -> Routes {
    Routes::default().get("/southbound/camara/{connector}/callback", oauth_callback)
}

pub fn enrichment_routes() -> Routes {
    Routes::default().get("/he/{connector}/{state}", header_enrichment_callback)
}

/// `GET …-checks/{check_id}/redirect`
pub(super) async fn open_check_url<S: SilentProduct>(
    State(app): State<App>,
    visitor: DeviceVisitor,
    ids: PathParameters,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let format = ResponseFormat::from_headers(&parts.headers);
    format.render(begin_redirect::<S>(app, &visitor, &ids, &parts, format).await)
}

async fn begin_redirect<S: SilentProduct>(
    app: App,
    visitor: &DeviceVisitor,
    ids: &PathParameters,
    parts: &Parts,
    format: ResponseFormat,
) -> Result<Response, Problem> {
    let (check, token, query) = match parse_check_url(&app, ids, parts) {
        Ok(found) => found,
        Err(problem) => {
            visitor.count_invalid_visit(&app)?;
            return Err(problem);
        }
    };
    visitor.count_visit(&app, check)?;
    let address = visitor.address();
    // A raw `+` in a query decodes to a space.
    let sim = query.single("sim")?.map(|sim| sim.replace(' ', "+"));
    if parts.method == Method::HEAD {
        return Ok(head_response());
    }
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let visit = DeviceRequest { product: S::PRODUCT, check, token: &token, sim: sim.as_deref(), address };
        match app.engine.open_device_url(visit).await? {
            NextStep::Redirect(location) => redirect(&location),
            NextStep::Finish(end) => format.render_outcome(&end, RedirectStep::First),
        }
    })
    .await
}

/// Parses the check id and verifies the device token without a database query.
fn parse_check_url(app: &App, ids: &PathParameters, parts: &Parts) -> Result<(CheckId, String, DeviceQuery), Problem> {
    let check = ids.check()?;
    let query = DeviceQuery::parse(parts.uri.query())?;
    let token = query.single("t")?.ok_or(RedirectError::NotFound)?.to_owned();
    if !app.engine.is_device_token(check, &token).map_err(RedirectError::from)? {
        return Err(RedirectError::NotFound.into());
    }
    Ok((check, token, query))
}

/// `GET /southbound/camara/{connector}/callback`
async fn oauth_callback(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    ids: PathParameters,
    request: Request,
) -> Response {
    let (format, &RequestContext { client_ip: address, peer, .. }) =
        (ResponseFormat::from_headers(request.headers()), &*context);
    let returned = DeviceQuery::parse(request.uri().query()).and_then(|query| {
        let state = query.single("state")?.ok_or_else(|| Problem::bad_request("missing query parameter `state`"));
        let (connector, state) = (connector_name(&ids), state?.to_owned());
        // Devices can send any header here. Enrichment headers are only accepted on the enrichment listener.
        Ok(ReturnedDevice { connector, state, peer, address, query: query.into_pairs(), headers: vec![] })
    });
    format.render(match returned {
        Ok(_) if request.method() == Method::HEAD => Ok(head_response()),
        Ok(returned) => returned.finish_redirect(app, format).await,
        Err(problem) => Err(problem),
    })
}

/// `GET /he/{connector}/{state}`
async fn header_enrichment_callback(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    ids: PathParameters,
    request: Request,
) -> Response {
    let (format, &RequestContext { client_ip: address, peer, .. }) =
        (ResponseFormat::from_headers(request.headers()), &*context);
    if request.method() == Method::HEAD {
        return head_response();
    }
    let state = ids.get("state").unwrap_or_default().to_owned();
    let headers = header_pairs(request.headers());
    let returned = ReturnedDevice { connector: connector_name(&ids), state, peer, address, query: vec![], headers };
    format.render(returned.finish_redirect(app, format).await)
}

fn connector_name(ids: &PathParameters) -> String {
    ids.get("connector").unwrap_or_default().to_owned()
}

fn header_pairs(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Request of a device that returns from its operator.
struct ReturnedDevice {
    connector: String,
    state: String,
    peer: SocketAddr,
    address: IpAddr,
    query: Vec<(String, String)>,
    headers: Vec<(String, Vec<u8>)>,
}

impl ReturnedDevice {
    /// Runs to completion even if the device disconnects: its `state` can be used once.
    async fn finish_redirect(self, app: App, format: ResponseFormat) -> Result<Response, Problem> {
        let app_ = app.clone();
        run_to_completion(&app_, async move {
            let end = app
                .engine
                .handle_authorization_response(DeviceReturn {
                    connector: &self.connector,
                    state: &self.state,
                    peer: self.peer,
                    address: self.address,
                    query: &self.query,
                    headers: &self.headers,
                })
                .await?;
            format.render_outcome(&end, RedirectStep::Return)
        })
        .await
    }
}
