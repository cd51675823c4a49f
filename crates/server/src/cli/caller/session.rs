//! Speaking to a server as a project or a workspace.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use ringtrue_domain::product::Scope;
use ringtrue_operators::client::Answer;
use serde_json::Value;

use super::{
    arguments::Identity,
    problem::Problem,
    profile::{Access, Profile, ProfileName, Profiles},
    server::{Path, Server},
    tokens::{Token, Tokens},
};
use crate::cli::{desk::Desk, failure::Failure};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Debug)]
pub(super) struct Session {
    pub profile: Profile,
    pub server: Server,
    /// What to call the profile in advice.
    name: Option<ProfileName>,
    tokens: Tokens,
}

impl Session {
    /// With the credentials of a profile.
    pub(super) fn open(desk: &Desk, identity: &Identity) -> Result<Self, Failure> {
        let name = ProfileName::of(desk, identity)?;
        let profile = Profiles::open(desk)?.get(&name)?;
        let tokens = Tokens::of_profile(desk, &name)?;
        Ok(Session { server: Server::of(&profile)?, profile, name: Some(name), tokens })
    }

    /// With credentials that are kept nowhere.
    pub(super) fn passing(profile: Profile) -> Result<Self, Failure> {
        Ok(Session { server: Server::of(&profile)?, profile, name: None, tokens: Tokens::in_memory() })
    }

    pub(super) async fn get(&self, scope: Scope, path: &Path<'_>, query: &[(&str, String)]) -> Result<Value, Failure> {
        self.request(scope, Method::GET, path, query, None, None).await
    }

    pub(super) async fn post(&self, scope: Scope, path: &Path<'_>, body: &Value) -> Result<Value, Failure> {
        self.request(scope, Method::POST, path, &[], Some(body), None).await
    }

    pub(super) async fn create(
        &self,
        scope: Scope,
        path: &Path<'_>,
        body: &Value,
        idempotency_key: Option<&str>,
    ) -> Result<Value, Failure> {
        self.request(scope, Method::POST, path, &[], Some(body), idempotency_key).await
    }

    /// A request without a body for something that is to be done once.
    pub(super) async fn order(&self, scope: Scope, path: &Path<'_>, idempotency_key: &str) -> Result<Value, Failure> {
        self.request(scope, Method::POST, path, &[], None, Some(idempotency_key)).await
    }

    pub(super) async fn delete(&self, scope: Scope, path: &Path<'_>) -> Result<(), Failure> {
        self.request(scope, Method::DELETE, path, &[], None, None).await.map(drop)
    }

    /// A token that is good for a while, whether or not it is a new one.
    pub(super) async fn token(&self, scope: Scope) -> Result<Token, Failure> {
        let access = self.access(scope)?;
        match self.tokens.get(&access.client_id, scope) {
            Some(token) => Ok(token),
            None => self.new_token(access, scope).await,
        }
    }

    async fn new_token(&self, access: &Access, scope: Scope) -> Result<Token, Failure> {
        let token = self.server.token(access, scope).await?.map_err(Failure::Problem)?;
        self.tokens.keep(&access.client_id, scope, token.clone())?;
        Ok(token)
    }

    async fn request(
        &self,
        scope: Scope,
        method: Method,
        path: &Path<'_>,
        query: &[(&str, String)],
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Value, Failure> {
        let url = self.server.url(path, query);
        let mut headers = HeaderMap::new();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = idempotency_key {
            let key = HeaderValue::try_from(key).map_err(|_| {
                Failure::refused("--idempotency-key cannot be sent", "Take letters, digits and signs of ASCII.")
            })?;
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let send = async |token: &Token| {
            let mut headers = headers.clone();
            headers.insert(AUTHORIZATION, bearer(token)?);
            self.server.send(method.clone(), &url, headers, body.clone()).await
        };
        let access = self.access(scope)?;
        let kept = self.tokens.get(&access.client_id, scope);
        let answer = match kept {
            None => send(&self.new_token(access, scope).await?).await?,
            Some(kept) => {
                let answer = send(&kept).await?;
                if answer.status == 401 {
                    // It was revoked, or the server is another one by now.
                    self.tokens.drop(&access.client_id, scope)?;
                    send(&self.new_token(access, scope).await?).await?
                } else {
                    answer
                }
            }
        };
        self.content(&answer)
    }

    fn content(&self, answer: &Answer) -> Result<Value, Failure> {
        let problem = || Failure::Problem(Problem::of(answer, &self.server.base_url));
        match answer.status {
            200..=299 if answer.body.is_empty() => Ok(Value::Null),
            200..=299 => serde_json::from_slice(&answer.body).map_err(|_| problem()),
            _ => Err(problem()),
        }
    }

    fn access(&self, scope: Scope) -> Result<&Access, Failure> {
        self.profile.access(scope).ok_or_else(|| {
            let (whose, kind) = match scope {
                Scope::Product(_) => ("a project's", "project"),
                Scope::Management => ("a workspace's", "workspace"),
            };
            let name = self.name.as_ref().map_or_else(String::new, |name| format!(" --profile {name}"));
            Failure::NotSignedIn {
                what: format!("this needs {whose} credential, and the profile has none"),
                remedy: format!(
                    "Add it: ringtrue login{name} --base-url {} --client-id ID, with the id of a {kind}'s credential.",
                    self.server.base_url
                ),
            }
        })
    }

    /// The workspace that the profile may manage.
    pub(super) fn workspace(&self) -> Result<&str, Failure> {
        self.access(Scope::Management)?;
        Ok(self.profile.workspace.as_ref().map_or("", |workspace| workspace.workspace_id.as_str()))
    }
}

fn bearer(token: &Token) -> Result<HeaderValue, Failure> {
    let value = format!("Bearer {}", token.access_token.reveal());
    let mut value = HeaderValue::try_from(value).map_err(|problem| Failure::Failed(problem.into()))?;
    value.set_sensitive(true);
    Ok(value)
}
