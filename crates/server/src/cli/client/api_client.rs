//! HTTP client for the API of a server.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use ringtrue_domain::product::Scope;
use ringtrue_engine::ports::{Clock, SystemClock};
use ringtrue_operators::client::{Client, ClientError, ClientResponse, ClientSettings};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::{
    api_problem::ApiProblem,
    profile::{ClientCredential, Profile, Secret},
    token_cache::AccessToken,
};
use crate::cli::error::CliError;

/// Longer than the server's own request timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct ApiClient {
    client: Client,
    pub base_url: Url,
}

/// Path segments before percent-encoding.
pub(super) type PathSegments<'a> = [&'a str];

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    expires_in: i64,
}

impl ApiClient {
    pub(super) fn for_profile(profile: &Profile) -> Result<Self, CliError> {
        let settings = ClientSettings {
            extra_roots: profile.ca_file.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            total_timeout: REQUEST_TIMEOUT,
            ..ClientSettings::default()
        };
        let client = Client::new(&settings).map_err(|error| {
            CliError::with_hint(error.to_string(), "Use a PEM file with certificates: --ca-file PATH")
        })?;
        Ok(ApiClient { client, base_url: profile.base_url.clone() })
    }

    pub(super) fn url(&self, path: &PathSegments<'_>, query: &[(&str, String)]) -> Url {
        let mut url = self.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Returns the response with any status.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<ClientResponse, CliError> {
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, application/problem+json"));
        self.client.request(method, url, headers, body).await.map_err(|error| self.unreachable_error(error))
    }

    pub(super) async fn request_token(
        &self,
        credential: &ClientCredential,
        scope: Scope,
    ) -> Result<Result<AccessToken, ApiProblem>, CliError> {
        let requested_at = SystemClock.now().as_second();
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let authorization =
            format!("{}:{}", encoded(&credential.client_id), encoded(credential.client_secret.reveal()));
        let mut authorization = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(authorization)))
            .map_err(|error| CliError::Other(error.into()))?;
        authorization.set_sensitive(true);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, authorization), (CONTENT_TYPE, form)]);
        let body = format!("grant_type=client_credentials&scope={scope}");
        let response = self.send(Method::POST, &self.url(&["oauth2", "token"], &[]), headers, body).await?;
        if response.status != 200 {
            return Ok(Err(ApiProblem::from_response(&response, &self.base_url)));
        }
        Ok(match serde_json::from_slice::<TokenBody>(&response.body) {
            Ok(body) => Ok(AccessToken {
                access_token: Secret::new(body.access_token),
                expires_at: requested_at + body.expires_in,
            }),
            Err(_) => Err(ApiProblem::from_response(&response, &self.base_url)),
        })
    }

    fn unreachable_error(&self, error: ClientError) -> CliError {
        let hint = match error {
            ClientError::InvalidUrl | ClientError::Unresolved => "Check the URL: `ringtrue profiles` shows it.",
            ClientError::Refused | ClientError::ConnectTimeout => "Check that the server is running, and its port.",
            ClientError::Tls => "If the server has a private CA, run `ringtrue login` again with --ca-file PATH.",
            ClientError::Timeout | ClientError::Lost => "Try again.",
            ClientError::TooLarge => "Use a smaller --size.",
            ClientError::Protocol => "Check that Ringtrue is running at this URL.",
        };
        CliError::Unreachable { message: format!("{} is unreachable: {error}", self.base_url), hint }
    }
}
