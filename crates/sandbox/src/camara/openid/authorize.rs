//! The authorization endpoint: devices come here, are recognised or not, and are sent back.
//!
//! A device is sent back only to an address that the client has registered; without a known client and address there is
//! a page. Nobody is ever asked anything, as if every request had `prompt=none`.

use http::StatusCode;
use url::Url;

use super::{ErrorCode, Refusal, request_object, subject};
use crate::camara::{
    Client, Core, Fault,
    http::{Answer, Parameters, Request, page, redirect},
    memory::{Authentication, Authorization, Grant, Subject},
    scope::{Scope, Scopes},
    sealed::Kind,
    sim::{PhoneNumber, Recognition},
};

/// How long a code is good, in seconds.
pub(super) const CODE_LIFETIME: i64 = 60;

/// What becomes of a device whose request was good.
enum Outcome {
    BackWith {
        code: String,
    },
    /// It waits for ever.
    Silence,
}

pub(in crate::camara) fn authorize(core: &Core, request: &Request, fault: &Fault) -> Answer {
    let written = request.query();
    let known = written.get("client_id").and_then(|id| core.client(id)).and_then(|client| {
        let redirect_uri = written.get("redirect_uri").filter(|uri| client.may_redirect_to(uri))?;
        Some((client, redirect_uri.to_owned()))
    });
    let Some((client, redirect_uri)) = known else {
        return page(StatusCode::BAD_REQUEST, "this client is not known here, or not with this redirect_uri");
    };
    let way_back = WayBack { issuer: core.stated_issuer(fault), redirect_uri: &redirect_uri };
    let asked = match opened(core, client, &written) {
        Ok(within) => within.unwrap_or(written),
        Err(refusal) => return way_back.refuse(refusal, written.get("state")),
    };
    match decide(core, client, &redirect_uri, &asked) {
        Ok(Outcome::BackWith { code }) => way_back.go(&[("code", &code)], asked.get("state")),
        Ok(Outcome::Silence) => page(StatusCode::OK, "the simulated network stays silent"),
        Err(refusal) => way_back.refuse(refusal, asked.get("state")),
    }
}

/// The way to the client, by the device.
struct WayBack<'a> {
    issuer: &'a str,
    redirect_uri: &'a str,
}

impl WayBack<'_> {
    fn go(&self, parameters: &[(&str, &str)], state: Option<&str>) -> Answer {
        let Ok(mut location) = Url::parse(self.redirect_uri) else {
            return page(StatusCode::BAD_REQUEST, "the registered redirect_uri is not absolute");
        };
        let state = state.map(|state| ("state", state));
        location.query_pairs_mut().extend_pairs(parameters).extend_pairs(state).append_pair("iss", self.issuer);
        redirect(location.as_str())
    }

    fn refuse(&self, refusal: Refusal, state: Option<&str>) -> Answer {
        self.go(&[("error", refusal.code.as_str()), ("error_description", refusal.why)], state)
    }
}

/// The parameters of the request object, if there is one.
fn opened(core: &Core, client: &Client, written: &Parameters) -> Result<Option<Parameters>, Refusal> {
    if written.are_repeated() {
        return Err(invalid("a parameter is there twice"));
    }
    if written.get("request_uri").is_some() {
        return Err(Refusal::new(ErrorCode::RequestUriNotSupported, "request objects are sent by value"));
    }
    written.get("request").map(|object| request_object::open(core, client, object, written)).transpose()
}

fn decide(core: &Core, client: &Client, redirect_uri: &str, asked: &Parameters) -> Result<Outcome, Refusal> {
    judge_form(asked)?;
    let code_challenge = code_challenge(asked)?;
    let scopes = asked.get("scope").ok_or(Refusal::new(ErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    let number = sim_of_device(core, asked)?;
    match number.recognition() {
        Recognition::Silence => return Ok(Outcome::Silence),
        Recognition::Failure => return Err(Refusal::new(ErrorCode::ServerError, "the network has failed")),
        Recognition::OutOfTime => {
            return Err(Refusal::new(ErrorCode::TemporarilyUnavailable, "the network took too long"));
        }
        Recognition::Wrong if scopes.are_only(Scope::ReadDeviceNumber) => return Err(not_recognised()),
        Recognition::Right | Recognition::Wrong | Recognition::NotApplicable => {}
    }
    let now = core.now();
    let authorization = Authorization {
        grant: Grant {
            client_id: client.id.clone(),
            scopes,
            subject: Some(Subject { number, authentication: Authentication::Network }),
        },
        redirect_uri: redirect_uri.to_owned(),
        code_challenge,
        nonce: asked.get("nonce").map(str::to_owned),
        until: now + CODE_LIFETIME,
    };
    Ok(Outcome::BackWith { code: core.sealer.seal(Kind::Code, &authorization)? })
}

fn judge_form(asked: &Parameters) -> Result<(), Refusal> {
    match asked.get("response_type") {
        Some("code") => {}
        Some(_) => return Err(Refusal::new(ErrorCode::UnsupportedResponseType, "response_type is code")),
        None => return Err(invalid("response_type is missing")),
    }
    if asked.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(invalid("response_mode is query"));
    }
    match asked.get("prompt") {
        None | Some("none") => Ok(()),
        Some(several) if several.split(' ').any(|one| one == "none") => Err(invalid("none stands alone in prompt")),
        Some(_) => Err(Refusal::new(ErrorCode::InteractionRequired, "nobody is asked anything here")),
    }
}

/// What the code is to be bound to. Without it, `state` and `nonce` must protect the client.
fn code_challenge(asked: &Parameters) -> Result<Option<String>, Refusal> {
    let is_base64url = |text: &str| text.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-_".contains(&octet));
    match (asked.get("code_challenge"), asked.get("code_challenge_method")) {
        (Some(challenge), Some("S256")) if challenge.len() == 43 && is_base64url(challenge) => {
            Ok(Some(challenge.to_owned()))
        }
        (Some(_), Some("S256")) => Err(invalid("code_challenge is a SHA-256 in base64url")),
        (Some(_), _) => Err(invalid("code_challenge_method is S256")),
        (None, Some(_)) => Err(invalid("code_challenge is missing")),
        (None, None) if asked.get("state").is_some() && asked.get("nonce").is_some() => Ok(None),
        (None, None) => Err(invalid("there must be a code_challenge, or both state and nonce")),
    }
}

/// The simulation of knowing a device by the network that it is on.
fn sim_of_device(core: &Core, asked: &Parameters) -> Result<PhoneNumber, Refusal> {
    match asked.get("login_hint") {
        Some(hint) => subject::number(hint).ok_or(invalid("login_hint is tel: and a number, or a number")),
        None => core.config.default_sim.clone().ok_or_else(not_recognised),
    }
}

fn not_recognised() -> Refusal {
    Refusal::new(ErrorCode::LoginRequired, "the network does not know this device")
}

fn invalid(why: &'static str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, why)
}
