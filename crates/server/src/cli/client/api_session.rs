//! Authenticated API requests with the credentials of a profile.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use ringtrue_domain::product::Scope;
use ringtrue_operators::client::ClientResponse;
use serde_json::Value;

use super::{
    api_client::{ApiClient, PathSegments},
    api_problem::ApiProblem,
    arguments::ProfileOption,
    profile::{ClientCredential, Profile, ProfileName, ProfileStore},
    token_cache::{AccessToken, TokenCache},
};
use crate::cli::{context::CommandContext, error::CliError};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Debug)]
pub(super) struct ApiSession {
    pub profile: Profile,
    pub client: ApiClient,
    /// Shown in hints.
    name: Option<ProfileName>,
    tokens: TokenCache,
}

impl ApiSession {
    pub(super) fn open(context: &CommandContext, profile_option: &ProfileOption) -> Result<Self, CliError> {
        let name = ProfileName::resolve(context, profile_option)?;
        let profile = ProfileStore::open(context)?.require(&name)?;
        let tokens = TokenCache::for_profile(context, &name)?;
        Ok(ApiSession { client: ApiClient::for_profile(&profile)?, profile, name: Some(name), tokens })
    }

    /// Opens a session whose tokens are cached in memory only.
    pub(super) fn ephemeral(profile: Profile) -> Result<Self, CliError> {
        Ok(ApiSession {
            client: ApiClient::for_profile(&profile)?,
            profile,
            name: None,
            tokens: TokenCache::in_memory(),
        })
    }

    pub(super) async fn get(
        &self,
        scope: Scope,
        path: &PathSegments<'_>,
        query: &[(&str, String)],
    ) -> Result<Value, CliError> {
        self.request(scope, Method::GET, path, query, None, None).await
    }

    pub(super) async fn post(&self, scope: Scope, path: &PathSegments<'_>, body: &Value) -> Result<Value, CliError> {
        self.request(scope, Method::POST, path, &[], Some(body), None).await
    }

    pub(super) async fn create(
        &self,
        scope: Scope,
        path: &PathSegments<'_>,
        body: &Value,
        idempotency_key: Option<&str>,
    ) -> Result<Value, CliError> {
        self.request(scope, Method::POST, path, &[], Some(body), idempotency_key).await
    }

    /// POST without a body.
    pub(super) async fn post_idempotent(
        &self,
        scope: Scope,
        path: &PathSegments<'_>,
        idempotency_key: &str,
    ) -> Result<Value, CliError> {
        self.request(scope, Method::POST, path, &[], None, Some(idempotency_key)).await
    }

    pub(super) async fn delete(&self, scope: Scope, path: &PathSegments<'_>) -> Result<(), CliError> {
        self.request(scope, Method::DELETE, path, &[], None, None).await.map(drop)
    }

    /// Returns a cached token, or requests a new one.
    pub(super) async fn token(&self, scope: Scope) -> Result<AccessToken, CliError> {
        let credential = self.credential(scope)?;
        match self.tokens.get(&credential.client_id, scope) {
            Some(token) => Ok(token),
            None => self.request_new_token(credential, scope).await,
        }
    }

    async fn request_new_token(&self, credential: &ClientCredential, scope: Scope) -> Result<AccessToken, CliError> {
        let token = self.client.request_token(credential, scope).await?.map_err(CliError::Api)?;
        self.tokens.insert(&credential.client_id, scope, token.clone())?;
        Ok(token)
    }

    async fn request(
        &self,
        scope: Scope,
        method: Method,
        path: &PathSegments<'_>,
        query: &[(&str, String)],
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Value, CliError> {
        let url = self.client.url(path, query);
        let mut headers = HeaderMap::new();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = idempotency_key {
            let key = HeaderValue::try_from(key)
                .map_err(|_| CliError::with_hint("invalid --idempotency-key", "Use printable ASCII characters."))?;
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let send = async |token: &AccessToken| {
            let mut headers = headers.clone();
            headers.insert(AUTHORIZATION, bearer_header(token)?);
            self.client.send(method.clone(), &url, headers, body.clone()).await
        };
        let credential = self.credential(scope)?;
        let cached = self.tokens.get(&credential.client_id, scope);
        let response = match cached {
            None => send(&self.request_new_token(credential, scope).await?).await?,
            Some(cached) => {
                let response = send(&cached).await?;
                if response.status == 401 {
                    // The token was revoked, or the server was replaced.
                    self.tokens.remove(&credential.client_id, scope)?;
                    send(&self.request_new_token(credential, scope).await?).await?
                } else {
                    response
                }
            }
        };
        self.parse_body(&response)
    }

    fn parse_body(&self, response: &ClientResponse) -> Result<Value, CliError> {
        let problem = || CliError::Api(ApiProblem::from_response(response, &self.client.base_url));
        match response.status {
            200..=299 if response.body.is_empty() => Ok(Value::Null),
            200..=299 => serde_json::from_slice(&response.body).map_err(|_| problem()),
            _ => Err(problem()),
        }
    }

    fn credential(&self, scope: Scope) -> Result<&ClientCredential, CliError> {
        self.profile.credential(scope).ok_or_else(|| {
            let (owner, kind) = match scope {
                Scope::Product(_) => ("a project", "project"),
                Scope::Management => ("a workspace", "workspace"),
            };
            let name = self.name.as_ref().map_or_else(String::new, |name| format!(" --profile {name}"));
            CliError::NotSignedIn {
                message: format!("this command needs {owner} credential, but the profile has none"),
                hint: format!(
                    "Add it: ringtrue login{name} --base-url {} --client-id ID, with the client id of a {kind}.",
                    self.client.base_url
                ),
            }
        })
    }

    pub(super) fn workspace_id(&self) -> Result<&str, CliError> {
        self.credential(Scope::Management)?;
        Ok(self.profile.workspace.as_ref().map_or("", |workspace| workspace.workspace_id.as_str()))
    }
}

fn bearer_header(token: &AccessToken) -> Result<HeaderValue, CliError> {
    let value = format!("Bearer {}", token.access_token.reveal());
    let mut value = HeaderValue::try_from(value).map_err(|error| CliError::Other(error.into()))?;
    value.set_sensitive(true);
    Ok(value)
}
