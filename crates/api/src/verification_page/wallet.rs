//! Requests to the phone's wallet and its answers, as the script of the hosted page exchanges them.

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use ringtrue_domain::silent::WalletFailure;
use ringtrue_engine::ports::operator_tokens::DigitalCredential;
use ringtrue_verification_page::DisplayMode;
use ringtrue_web::{
    app::App,
    body::{JsonError, Node, Object, as_digital_credential, as_parsed, read_json_bytes},
    problem::Problem,
    response::json_response,
};
use serde::Serialize;

use crate::{
    digital_credential::CredentialRequestBody,
    verification_page::{forms::require_same_origin, visitor::PageVisitor},
};

/// What the page's script sends after it has asked the wallet.
enum WalletOutcome {
    Credential(DigitalCredential),
    Failure(WalletFailure),
}

impl WalletOutcome {
    fn parse(document: &[u8]) -> Result<Self, JsonError> {
        let mut body = Object::parse(document)?;
        let outcome = match body.take("digital_credential", as_digital_credential)? {
            Some(credential) => WalletOutcome::Credential(credential),
            None => WalletOutcome::Failure(body.require("error", as_reported_failure)?),
        };
        body.finish(outcome)
    }
}

/// Parses a failure that a browser can know of. Whether an answer is invalid or refused is for the server to say.
fn as_reported_failure(node: Node, pointer: &str) -> Result<WalletFailure, JsonError> {
    let failure = as_parsed(node, pointer)?;
    match failure {
        WalletFailure::Declined | WalletFailure::NoSim | WalletFailure::TimedOut | WalletFailure::Unavailable => {
            Ok(failure)
        }
        WalletFailure::Invalid | WalletFailure::Refused => {
            Err(JsonError::new(pointer, "expected `declined`, `no_sim`, `timed_out` or `unavailable`"))
        }
    }
}

/// Where the browser goes after the wallet's answer.
#[derive(Serialize)]
struct NextPage {
    location: String,
}

/// `POST /v/{token}/wallet-request`
///
/// Responds with a request to the wallet. Only the browser that gets it may answer, so it gets a key in a cookie.
pub async fn request(State(app): State<App>, visitor: PageVisitor, headers: HeaderMap) -> Result<Response, Problem> {
    require_same_origin(&app, &headers)?;
    let view = visitor.load_view_for_action(&app).await?;
    let key = visitor.own_or_new_key(&app, view.verification)?;
    let request = app.engine.verifications.wallet_request(&visitor.token, &key, visitor.device_address(&view)).await?;
    let request = request.ok_or_else(Problem::not_found)?;
    let mut response = json_response(StatusCode::OK, &CredentialRequestBody::from(&request));
    visitor.set_browser_key(&app, &headers, view.verification, &key, &mut response);
    Ok(response)
}

/// `POST /v/{token}/wallet`
///
/// Responds with the URL to which the browser goes: the client's redirect URL with a code, or the page, which shows the
/// state of the verification, whatever it is.
pub async fn answer(State(app): State<App>, visitor: PageVisitor, request: Request) -> Result<Response, Problem> {
    require_same_origin(&app, request.headers())?;
    let view = visitor.load_view_for_action(&app).await?;
    let (keys, address) = (&visitor.browser_keys, visitor.device_address(&view));
    let verifications = &app.engine.verifications;
    let return_to = match WalletOutcome::parse(&read_json_bytes(&app, request).await?)? {
        WalletOutcome::Credential(credential) => {
            verifications.finish_with_wallet(&visitor.token, keys, address, &credential).await?
        }
        WalletOutcome::Failure(failure) => {
            verifications.handle_wallet_failure(&visitor.token, failure).await?;
            None
        }
    };
    // In other windows and frames, the page itself passes the result on.
    let location = return_to.filter(|_| visitor.display == DisplayMode::Tab).unwrap_or_else(|| visitor.page_url());
    Ok(json_response(StatusCode::OK, &NextPage { location }))
}
