//! A project as an OpenID client: the values that an identity server or an app needs to sign users in.

use ringtrue_domain::{
    page::PageRequest,
    product::{Product, Scope},
    sign_in::{ClientAuthentication, IdTokenAlgorithm},
    tenancy::CredentialOwner,
};
use ringtrue_web::app::App;
use strum::VariantArray as _;

use crate::{
    page::{SelectOption, error::ConsoleError},
    session::console_session::ProjectAccess,
};

#[derive(Debug)]
pub struct SignInClient {
    /// Whether the project has the product.
    pub is_enabled: bool,
    pub issuer: String,
    pub discovery_url: String,
    /// The valid credentials that have the product's scope, with the newest first.
    pub client_ids: Vec<String>,
}

impl SignInClient {
    pub async fn load(app: &App, access: &ProjectAccess) -> Result<Self, ConsoleError> {
        let owner = CredentialOwner::Project(access.workspace.id, access.project.id);
        let all = PageRequest::new(PageRequest::MAX_SIZE, 1).unwrap_or_default();
        let found = app.engine.management.list_credentials(&access.actor, owner, all).await?;
        let now = app.engine.clock().now();
        let usable = found.items.into_iter().filter(|credential| {
            credential.is_active(now) && credential.scopes.contains(&Scope::Product(Product::SignIn))
        });
        Ok(SignInClient {
            is_enabled: access.project.products.contains(&Product::SignIn),
            client_ids: usable.map(|credential| credential.client_id.to_string()).collect(),
            ..SignInClient::without_credentials(app.engine.base_url())
        })
    }

    pub fn without_credentials(base_url: &str) -> Self {
        SignInClient {
            is_enabled: false,
            issuer: base_url.to_owned(),
            discovery_url: format!("{base_url}/.well-known/openid-configuration"),
            client_ids: vec![],
        }
    }
}

/// Returns the choices for `sign_in.token_endpoint_auth_method`.
pub fn authentication_options(current: &str) -> Vec<SelectOption> {
    let title = |method: ClientAuthentication| match method {
        ClientAuthentication::ClientSecretBasic => "Client secret by HTTP Basic (client_secret_basic)",
        ClientAuthentication::ClientSecretPost => "Client secret in the request body (client_secret_post)",
        ClientAuthentication::PrivateKeyJwt => "Assertion signed by a key of the client (private_key_jwt)",
        ClientAuthentication::None => "None: a public client, which uses PKCE (none)",
    };
    let methods = ClientAuthentication::VARIANTS.iter().map(|method| (method.as_str(), title(*method)));
    options(current, [("", "Default: client secret, in either way")].into_iter().chain(methods))
}

/// Returns the choices for `sign_in.id_token_signed_response_alg`.
pub fn algorithm_options(current: &str) -> Vec<SelectOption> {
    let algorithms = IdTokenAlgorithm::VARIANTS.iter().map(|algorithm| (algorithm.as_str(), algorithm.as_str()));
    options(current, [("", "Default: RS256")].into_iter().chain(algorithms))
}

fn options<'a>(current: &str, choices: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<SelectOption> {
    let option = |(value, title): (&str, &str)| SelectOption {
        is_selected: value == current,
        value: value.to_owned(),
        title: title.to_owned(),
    };
    choices.map(option).collect()
}
