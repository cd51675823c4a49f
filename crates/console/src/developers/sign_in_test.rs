//! Test sign-in: a small relying party of the console that runs a real sign-in of a project, and shows what its client
//! would get.
//!
//! Like every client, it needs a registered redirect URI, and uses PKCE, `state` and `nonce`. They are kept in a cookie
//! that only the server can read, bound to the console session. The code is redeemed in this process, without the
//! client's secret.

use askama::Template;
use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use ringtrue_domain::{
    account::Permission,
    sign_in::SignInScopes,
    tenancy::{ClientId, InvalidClientId, Mode, Setting, SettingValue},
    timestamp,
};
use ringtrue_engine::{
    jwt::KeySet,
    sign_in::{IssuedTokens, RedeemCodeError, SIGN_IN_TTL, UserInfoError},
    tenants::{ManagementError, ProjectPatch, SignInTestError},
};
use ringtrue_web::{app::App, parameters::PathParameters, problem::Problem, routes::Routes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::{
    configure::sign_in_client::SignInClient,
    page::{
        self, Layout, MenuSection,
        error::{ConsoleError, to_sentence},
        redaction::NumberMask,
    },
    session::{
        console_session::{ConsoleSession, Cookie, ProjectAccess},
        forms::{FormFields, SessionForm},
    },
};

const REDIRECT_URIS: &str = "sign_in.redirect_uris";
const TITLE: &str = "Test sign-in";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/sign-in", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/sign-in", start)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/sign-in/redirect-uri", register)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/sign-in/callback", finish)
}

#[derive(Template)]
#[template(path = "developers/sign_in_test.html")]
struct SignInTestPage {
    layout: Layout,
    client: SignInClient,
    redirect_uri: String,
    is_registered: bool,
    is_live: bool,
    error: Option<String>,
    outcome: Option<TestOutcome>,
}

/// What a finished test shows.
enum TestOutcome {
    /// The authorization response is an error, which the client would get.
    Refused {
        error: String,
        description: String,
    },
    SignedIn(SignedIn),
}

struct SignedIn {
    client_id: String,
    /// What a client has to check, and whether it is right.
    checks: Vec<(&'static str, bool)>,
    header: Vec<Claim>,
    claims: Vec<Claim>,
    user_info: Vec<Claim>,
}

/// A member of a token or of the userinfo response.
struct Claim {
    name: String,
    value: String,
    /// The value as a time. Empty: it is none.
    time: String,
    meaning: &'static str,
}

/// State of a test that the cookie keeps until the browser returns.
#[derive(Serialize, Deserialize)]
struct PendingTest {
    project: String,
    client_id: String,
    state: String,
    nonce: String,
    code_verifier: String,
}

/// `GET …/sign-in`
async fn show(State(app): State<App>, access: ProjectAccess) -> Result<Response, ConsoleError> {
    render(&app, &access, StatusCode::OK, None, None).await
}

/// `POST …/sign-in/redirect-uri`: registers the redirect URI of the test.
async fn register(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, _) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let uri = redirect_uri(&app, &access);
    let registered = &access.project.configuration.sign_in;
    if registered.find_redirect_uri(&uri).is_none() {
        let uris = registered.redirect_uris.iter().map(|uri| uri.as_str().to_owned()).chain([uri]).collect();
        let setting = Setting::find(REDIRECT_URIS).ok_or_else(ConsoleError::not_found)?;
        let configuration = [(setting, Some(SettingValue::List(uris)))].into_iter().collect();
        let patch = ProjectPatch { configuration, ..ProjectPatch::default() };
        let (workspace, project) = (access.workspace.id, access.project.id);
        match app.engine.management.patch_project(&access.actor, workspace, project, patch, &|_| true).await {
            Ok(_) => {}
            Err(ManagementError::InvalidSetting(invalid)) => {
                let error = to_sentence(&invalid.cause.to_string());
                return render(&app, &access, StatusCode::BAD_REQUEST, Some(error), None).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(page::see_other(&format!("{}/sign-in", access.path())))
}

/// `POST …/sign-in`: sends the browser to the authorization endpoint.
async fn start(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let client = SignInClient::load(&app, &access).await?;
    let client_id = fields.get("client_id").filter(|given| client.client_ids.iter().any(|id| id == given));
    let Some(client_id) = client_id else {
        let error = "Select a valid credential of this project that has the product Sign-in.".to_owned();
        return render(&app, &access, StatusCode::BAD_REQUEST, Some(error), None).await;
    };
    let generate = || app.engine.accounts.generate_token();
    let pending = PendingTest {
        project: access.project.id.to_string(),
        client_id: client_id.to_owned(),
        state: generate(),
        nonce: generate(),
        code_verifier: generate(),
    };
    let json = serde_json::to_vec(&pending).map_err(|error| Problem::internal(&error))?;
    let sealed = app.engine.accounts.seal_for_browser(&cookie_purpose(&access.session), &json, SIGN_IN_TTL)?;
    let mut response = page::see_other(&authorization_url(&app, &access, &fields, &pending));
    response.headers_mut().append(header::SET_COOKIE, Cookie::SignInTest.set_for(&app, &sealed, SIGN_IN_TTL));
    Ok(response)
}

fn authorization_url(app: &App, access: &ProjectAccess, fields: &FormFields, pending: &PendingTest) -> String {
    let scopes = SignInScopes { phone: fields.contains("phone"), sim_swap: fields.contains("sim_swap") };
    let challenge = digest::digest(&digest::SHA256, pending.code_verifier.as_bytes());
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("response_type", "code")
        .append_pair("client_id", &pending.client_id)
        .append_pair("redirect_uri", &redirect_uri(app, access))
        .append_pair("scope", &scopes.names())
        .append_pair("state", &pending.state)
        .append_pair("nonce", &pending.nonce)
        .append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(challenge))
        .append_pair("code_challenge_method", "S256")
        .finish();
    format!("/oauth2/authorize?{query}")
}

/// `GET …/sign-in/callback`
async fn finish(
    State(app): State<App>,
    ids: PathParameters,
    session: ConsoleSession,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_project(&app, &ids, Permission::Develop).await?;
    let query: Vec<(String, String)> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let Some(pending) = PendingTest::read(&app, &access, &headers).filter(|pending| pending.is_answered_by(&query))
    else {
        // Keeps the cookie, because the test to which it belongs may continue in another tab.
        let error = "This test was started too long ago, in another session, or has already ended. Start it again.";
        return render(&app, &access, StatusCode::BAD_REQUEST, Some(error.to_owned()), None).await;
    };
    let mut response = match redeem(&app, &access, &pending, &query).await {
        Ok(outcome) => render(&app, &access, StatusCode::OK, None, Some(outcome)).await?,
        Err(TestFailure::Problem(status, error)) => {
            render(&app, &access, status, Some(to_sentence(&error)), None).await?
        }
        Err(TestFailure::Other(error)) => return Err(error),
    };
    // A response is accepted once: a code that is redeemed twice loses its tokens.
    response.headers_mut().append(header::SET_COOKIE, Cookie::SignInTest.clear(&app));
    Ok(response)
}

enum TestFailure {
    /// Shown on the page.
    Problem(StatusCode, String),
    Other(ConsoleError),
}

async fn redeem(
    app: &App,
    access: &ProjectAccess,
    pending: &PendingTest,
    query: &[(String, String)],
) -> Result<TestOutcome, TestFailure> {
    let parameter = |name: &str| query.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let problem = |status, error: &dyn std::fmt::Display| TestFailure::Problem(status, error.to_string());
    // Every response names the issuer, so that a client with several providers recognises a mix-up (RFC 9207).
    if parameter("iss") != Some(app.engine.base_url()) {
        return Err(problem(StatusCode::BAD_REQUEST, &"the response does not have the issuer of this deployment"));
    }
    if let Some(error) = parameter("error") {
        let description = parameter("error_description").unwrap_or_default();
        return Ok(TestOutcome::Refused { error: error.to_owned(), description: description.to_owned() });
    }
    let code = parameter("code").ok_or_else(|| problem(StatusCode::BAD_REQUEST, &"the response has no code"))?;
    let client: ClientId =
        pending.client_id.parse().map_err(|error: InvalidClientId| problem(StatusCode::BAD_REQUEST, &error))?;
    let test = app.engine.management.permit_sign_in_test(&access.actor, &access.project, &client).await;
    let test = test.map_err(|error| match error {
        SignInTestError::Store(error) => TestFailure::Other(error.into()),
        SignInTestError::TooMany => problem(StatusCode::TOO_MANY_REQUESTS, &error),
    })?;
    let uri = redirect_uri(app, access);
    let tokens = app.engine.sign_ins.redeem_test_code(&test, code, &uri, &pending.code_verifier).await;
    let tokens = tokens.map_err(|error| match error {
        RedeemCodeError::Store(error) => TestFailure::Other(error.into()),
        RedeemCodeError::NoKey => problem(StatusCode::SERVICE_UNAVAILABLE, &error),
        error => problem(StatusCode::BAD_REQUEST, &error),
    })?;
    let user_info = app.engine.sign_ins.userinfo(&tokens.access_token).await.map_err(|error| match error {
        UserInfoError::Store(error) => TestFailure::Other(error.into()),
        UserInfoError::InvalidToken => problem(StatusCode::BAD_REQUEST, &error),
    })?;
    Ok(TestOutcome::SignedIn(SignedIn::new(app, access.project.mode, pending, &tokens, &user_info)))
}

impl PendingTest {
    fn read(app: &App, access: &ProjectAccess, headers: &HeaderMap) -> Option<Self> {
        let sealed = Cookie::SignInTest.read(app, headers)?;
        let json = app.engine.accounts.unseal_from_browser(&cookie_purpose(&access.session), sealed)?;
        let pending: PendingTest = serde_json::from_slice(&json).ok()?;
        (pending.project == access.project.id.to_string()).then_some(pending)
    }

    fn is_answered_by(&self, query: &[(String, String)]) -> bool {
        let mut states = query.iter().filter(|(name, _)| name == "state").map(|(_, value)| value);
        match (states.next(), states.next()) {
            (Some(state), None) => verify_slices_are_equal(state.as_bytes(), self.state.as_bytes()).is_ok(),
            _ => false,
        }
    }
}

impl SignedIn {
    fn new(app: &App, mode: Mode, pending: &PendingTest, tokens: &IssuedTokens, user_info: &Value) -> Self {
        let id_token = tokens.id_token.as_deref().unwrap_or_default();
        let part = |index: usize| -> Map<String, Value> {
            let bytes = id_token.split('.').nth(index).and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
        };
        let (header, claims) = (part(0), part(1));
        let keys = app.engine.control_plane().keys();
        let document = json!({ "keys": keys.published_id_token_keys(app.engine.clock().now()) });
        let keys = KeySet::parse(document.to_string().as_bytes());
        let is = |name: &str, expected: &str| claims.get(name).and_then(Value::as_str) == Some(expected);
        let checks = vec![
            (
                "A published key verifies the signature of the ID token.",
                keys.is_some_and(|keys| keys.verify(id_token).is_ok()),
            ),
            ("The ID token’s issuer is this deployment.", is("iss", app.engine.base_url())),
            ("The ID token is for this client.", is("aud", &pending.client_id)),
            ("The ID token answers this request.", is("nonce", &pending.nonce)),
            ("Userinfo is about the same user.", user_info.get("sub") == claims.get("sub")),
        ];
        let rows =
            |members: &Map<String, Value>| members.iter().map(|(name, value)| Claim::new(name, value, mode)).collect();
        SignedIn {
            client_id: pending.client_id.clone(),
            checks,
            header: rows(&header),
            claims: rows(&claims),
            user_info: user_info.as_object().map(rows).unwrap_or_default(),
        }
    }
}

impl Claim {
    fn new(name: &str, value: &Value, mode: Mode) -> Self {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_time = matches!(name, "iat" | "exp" | "auth_time");
        let at = value.as_i64().filter(|_| is_time).and_then(|second| Timestamp::from_second(second).ok());
        Claim {
            value: match (name, mode) {
                // Simulated numbers belong to nobody.
                ("phone_number", Mode::Live) => NumberMask::default().apply(&text),
                _ => text,
            },
            time: at.map(timestamp::format).unwrap_or_default(),
            meaning: meaning(name),
            name: name.to_owned(),
        }
    }
}

/// Explains a member of the ID token, its header or userinfo to the developers of a client.
fn meaning(name: &str) -> &'static str {
    match name {
        "alg" => "Signature algorithm. Accept the one that you have configured, and no other.",
        "kid" => "Id of the signing key in the key set.",
        "typ" => "Type of the token.",
        "iss" => "The issuer: this deployment.",
        "sub" => "The user: stable for a number in this project, and useless outside it. Link accounts by it.",
        "aud" => "The client that the token is for.",
        "exp" => "When the token expires. Check it once, when you get it.",
        "iat" => "When the token was issued.",
        "auth_time" => "When the user proved the number. Older than the token if the browser had a session.",
        "nonce" => "The value in your request. It ties the token to the browser that began the sign-in.",
        "acr" => "How the number was proven: by the operator (silent), or by an SMS of the user (sms).",
        "amr" => "The methods that were used.",
        "at_hash" => "Ties the token to the access token that came with it.",
        "phone_number" => {
            "The proven number, in E.164 form. Numbers are recycled: it may belong to somebody else later."
        }
        "phone_number_verified" => "Always true: without a proof there is no token.",
        "sim_change" => "Whether the SIM was changed within the configured period: a sign of a stolen number.",
        _ => "",
    }
}

fn redirect_uri(app: &App, access: &ProjectAccess) -> String {
    format!("{}{}/sign-in/callback", app.engine.base_url(), access.path())
}

fn cookie_purpose(session: &ConsoleSession) -> String {
    format!("sign-in-test:{}", session.token.reveal())
}

async fn render(
    app: &App,
    access: &ProjectAccess,
    status: StatusCode,
    error: Option<String>,
    outcome: Option<TestOutcome>,
) -> Result<Response, ConsoleError> {
    let redirect_uri = redirect_uri(app, access);
    let page = SignInTestPage {
        layout: access.layout(TITLE, MenuSection::Settings),
        client: SignInClient::load(app, access).await?,
        is_registered: access.project.configuration.sign_in.find_redirect_uri(&redirect_uri).is_some(),
        redirect_uri,
        is_live: access.project.mode == Mode::Live,
        error,
        outcome,
    };
    Ok(page::render(status, &page))
}
