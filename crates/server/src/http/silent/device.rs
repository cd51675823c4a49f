//! The way of the device: it opens the URL of a check, goes to its operator, and comes back. It has no token of ours,
//! and what is in its queries is as good as one: none of it is ever logged.

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
use ringtrue_engine::silent::{Return, Step, Visit, VisitError};

use super::{
    super::{App, Routes, arrival::Arrival, caller::Visitor, path::PathIds, problem::Problem, to_the_end::to_the_end},
    Silent,
    farewell::{Hop, Reader, found, only_looked},
    parameters::Parameters,
};

pub fn routes() -> Routes {
    Routes::default().get("/southbound/camara/{connector}/callback", come_back)
}

pub fn enrichment_routes() -> Routes {
    Routes::default().get("/he/{connector}/{ticket}", come_enriched)
}

/// `GET …-checks/{check_id}/redirect`
pub(super) async fn visit<S: Silent>(
    State(app): State<App>,
    visitor: Visitor,
    ids: PathIds,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let reader = Reader::of(&parts.headers);
    reader.told(visited::<S>(app, &visitor, &ids, &parts, reader).await)
}

async fn visited<S: Silent>(
    app: App,
    visitor: &Visitor,
    ids: &PathIds,
    parts: &Parts,
    reader: Reader,
) -> Result<Response, Problem> {
    let (check, token, query) = match device_token(&app, ids, parts) {
        Ok(found) => found,
        Err(problem) => {
            visitor.count_stranger(&app)?;
            return Err(problem);
        }
    };
    visitor.count_visit(&app, check)?;
    let address = visitor.address();
    // Written as it is read, the `+` of a number is a space.
    let sim = query.once("sim")?.map(|sim| sim.replace(' ', "+"));
    if parts.method == Method::HEAD {
        return Ok(only_looked());
    }
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let visit = Visit { product: S::PRODUCT, check, token: &token, sim: sim.as_deref(), address };
        match app.engine.visit(visit).await? {
            Step::Go(location) => found(&location),
            Step::End(end) => reader.farewell(&end, Hop::First),
        }
    })
    .await
}

/// The check that a URL is of, and the token in it if it is the right one. No database is asked.
fn device_token(app: &App, ids: &PathIds, parts: &Parts) -> Result<(CheckId, String, Parameters), Problem> {
    let check = ids.check()?;
    let query = Parameters::parse(parts.uri.query())?;
    let token = query.once("t")?.ok_or(VisitError::NotFound)?.to_owned();
    if !app.engine.is_device_token(check, &token).map_err(VisitError::from)? {
        return Err(VisitError::NotFound.into());
    }
    Ok((check, token, query))
}

/// `GET /southbound/camara/{connector}/callback`
async fn come_back(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    ids: PathIds,
    request: Request,
) -> Response {
    let (reader, &Arrival { address, peer, .. }) = (Reader::of(request.headers()), &*arrival);
    let returned = Parameters::parse(request.uri().query()).and_then(|query| {
        let ticket = query.once("state")?.ok_or_else(|| Problem::bad_request("the query parameter `state` is missing"));
        let (connector, ticket) = (connector(&ids), ticket?.to_owned());
        // The device itself may write any header here: those that count come by the other door only.
        Ok(Returned { connector, ticket, peer, address, query: query.into_pairs(), headers: vec![] })
    });
    reader.told(match returned {
        Ok(_) if request.method() == Method::HEAD => Ok(only_looked()),
        Ok(returned) => returned.judged(app, reader).await,
        Err(problem) => Err(problem),
    })
}

/// `GET /he/{connector}/{ticket}`
async fn come_enriched(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    ids: PathIds,
    request: Request,
) -> Response {
    let (reader, &Arrival { address, peer, .. }) = (Reader::of(request.headers()), &*arrival);
    if request.method() == Method::HEAD {
        return only_looked();
    }
    let ticket = ids.get("ticket").unwrap_or_default().to_owned();
    let headers = all(request.headers());
    let returned = Returned { connector: connector(&ids), ticket, peer, address, query: vec![], headers };
    reader.told(returned.judged(app, reader).await)
}

fn connector(ids: &PathIds) -> String {
    ids.get("connector").unwrap_or_default().to_owned()
}

fn all(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// A device that is back, with all that it brings.
struct Returned {
    connector: String,
    ticket: String,
    peer: SocketAddr,
    address: IpAddr,
    query: Vec<(String, String)>,
    headers: Vec<(String, Vec<u8>)>,
}

impl Returned {
    /// To the end, even if the device hangs up: its ticket is good for one verdict.
    async fn judged(self, app: App, reader: Reader) -> Result<Response, Problem> {
        let app_ = app.clone();
        to_the_end(&app_, async move {
            let end = app
                .engine
                .come_back(Return {
                    connector: &self.connector,
                    ticket: &self.ticket,
                    peer: self.peer,
                    address: self.address,
                    query: &self.query,
                    headers: &self.headers,
                })
                .await?;
            reader.farewell(&end, Hop::Return)
        })
        .await
    }
}
