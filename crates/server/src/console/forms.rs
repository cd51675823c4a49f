//! Forms that browsers send. Each carries a token that only a page for the same browser can know, so no other site can
//! have one sent.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, request::Parts};
use ringtrue_engine::{accounts::ClientInfo, rate_limit::CallKind};

use super::{
    cookies::Cookie,
    refusal::Refusal,
    visitor::{Client, SignedIn},
};
use crate::http::{
    App,
    arrival::{Arrival, Context},
    body::{Form, MAX_FORM, read_form_within},
};

/// The name of the field in every form.
pub const FORM_TOKEN: &str = "form_token";

/// Those who have signed in may send longer forms: one of all networks has a box for each product.
const MAX_SIGNED_FORM: usize = 32 * 1024;

/// What was typed into a form.
#[derive(Debug)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(body: &Bytes) -> Result<Self, Refusal> {
        let form = Form::parse(body)?;
        Ok(Fields(form.into_pairs()))
    }

    /// A field that is there and not blank, without blanks around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// A field as it was typed: for passwords.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The names of all that was sent, in its order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// A box that is ticked.
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }
}

/// A form of somebody who has signed in.
#[derive(Debug)]
pub struct SignedForm {
    pub who: SignedIn,
    pub fields: Fields,
}

impl SignedForm {
    /// The same form, counted in its workspace as this kind of call.
    #[must_use]
    pub fn counted_as(mut self, kind: CallKind) -> Self {
        self.who.counted_as = Some(kind);
        self
    }
}

/// A form of somebody who has not, yet.
#[derive(Debug)]
pub struct VisitorForm {
    pub fields: Fields,
    pub client: ClientInfo,
    pub request_id: String,
}

impl FromRequest<Context> for SignedForm {
    type Rejection = Refusal;

    async fn from_request(request: Request, Context { app, arrival }: &Context) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let before = sender(app, &parts.headers, arrival).await?;
        let fields = read(app, &parts, body, before.token.reveal(), MAX_SIGNED_FORM).await?;
        // A form may take its time, and its sender may have lost the session or a role meanwhile.
        let who = sender(app, &parts.headers, arrival).await?;
        Ok(SignedForm { who, fields }.counted_as(CallKind::Management))
    }
}

impl FromRequest<Context> for VisitorForm {
    type Rejection = Refusal;

    async fn from_request(request: Request, Context { app, arrival }: &Context) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let cookie = Cookie::Visitor.read(app, &parts.headers).ok_or_else(Refusal::stale_form)?.to_owned();
        let fields = read(app, &parts, body, &cookie, MAX_FORM).await?;
        let Client(client) = Client::of(&parts.headers, arrival.address);
        Ok(VisitorForm { fields, client, request_id: arrival.request_id.as_str().to_owned() })
    }
}

/// Whose session it is now.
async fn sender(app: &App, headers: &HeaderMap, arrival: &Arrival) -> Result<SignedIn, Refusal> {
    let who = SignedIn::find(app, headers, arrival).await?;
    who.ok_or_else(|| Refusal::Go("/console/sign-in".to_owned()))
}

/// Reads a form of the browser that has this cookie.
async fn read(app: &App, parts: &Parts, body: axum::body::Body, cookie: &str, limit: usize) -> Result<Fields, Refusal> {
    if comes_from_elsewhere(&parts.headers) {
        return Err(Refusal::stale_form());
    }
    let body = read_form_within(app, &parts.headers, body, limit).await?;
    let fields = Fields::parse(&body)?;
    let given = fields.raw(FORM_TOKEN).unwrap_or_default();
    if !app.engine.is_form_token(cookie, given)? {
        return Err(Refusal::stale_form());
    }
    Ok(fields)
}

/// What newer browsers say by themselves, and no page can change.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

/// What is wrong with a field, shown beside its form.
pub fn invalid(text: impl std::fmt::Display) -> (StatusCode, Option<String>) {
    (StatusCode::BAD_REQUEST, Some(super::refusal::sentence(&text.to_string())))
}
