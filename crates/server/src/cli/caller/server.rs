//! The other end: requests to a server, and what it answers.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use ringtrue_domain::product::Scope;
use ringtrue_engine::ports::{Clock, SystemClock};
use ringtrue_operators::client::{Answer, Client, ClientError, ClientSettings};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::{
    problem::Problem,
    profile::{Access, Profile, Secret},
    tokens::Token,
};
use crate::cli::failure::Failure;

/// Longer than a server takes for anything.
const PATIENCE: Duration = Duration::from_secs(40);
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Server {
    client: Client,
    pub base_url: Url,
}

/// The parts of a path, each as it is before it is encoded.
pub(super) type Path<'a> = [&'a str];

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    expires_in: i64,
}

impl Server {
    pub(super) fn of(profile: &Profile) -> Result<Self, Failure> {
        let settings = ClientSettings {
            extra_roots: profile.ca_file.clone(),
            connect: CONNECT_PATIENCE,
            total: PATIENCE,
            ..ClientSettings::default()
        };
        let client = Client::new(&settings).map_err(|problem| {
            Failure::refused(problem.to_string(), "Name a file with certificates: --ca-file PATH")
        })?;
        Ok(Server { client, base_url: profile.base_url.clone() })
    }

    pub(super) fn url(&self, path: &Path<'_>, query: &[(&str, String)]) -> Url {
        let mut url = self.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Whatever the status of the answer.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Answer, Failure> {
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, application/problem+json"));
        self.client.request(method, url, headers, body).await.map_err(|problem| self.unreachable(problem))
    }

    /// Asks for a token.
    pub(super) async fn token(&self, access: &Access, scope: Scope) -> Result<Result<Token, Problem>, Failure> {
        let asked_at = SystemClock.now().as_second();
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let login = format!("{}:{}", encoded(&access.client_id), encoded(access.client_secret.reveal()));
        let mut login = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(login)))
            .map_err(|problem| Failure::Failed(problem.into()))?;
        login.set_sensitive(true);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, login), (CONTENT_TYPE, form)]);
        let body = format!("grant_type=client_credentials&scope={scope}");
        let answer = self.send(Method::POST, &self.url(&["oauth2", "token"], &[]), headers, body).await?;
        if answer.status != 200 {
            return Ok(Err(Problem::of(&answer, &self.base_url)));
        }
        Ok(match serde_json::from_slice::<TokenBody>(&answer.body) {
            Ok(body) => {
                Ok(Token { access_token: Secret::new(body.access_token), expires_at: asked_at + body.expires_in })
            }
            Err(_) => Err(Problem::of(&answer, &self.base_url)),
        })
    }

    fn unreachable(&self, problem: ClientError) -> Failure {
        let remedy = match problem {
            ClientError::Unusable | ClientError::Unresolved => "Is the address right? `ringtrue profiles` shows it.",
            ClientError::Refused | ClientError::ConnectTimeout => "Is the server up, and its port the right one?",
            ClientError::Tls => {
                "Sign in again with --ca-file PATH, if its certificate is not one that everybody trusts."
            }
            ClientError::Timeout | ClientError::Lost => "Try again.",
            ClientError::TooLarge => "Ask for less at a time, with --size.",
            ClientError::Protocol => "Is there Ringtrue at that address?",
        };
        Failure::Unreachable { what: format!("{} does not answer: {problem}", self.base_url), remedy }
    }
}
