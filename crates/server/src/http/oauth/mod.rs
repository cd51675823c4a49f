//! OAuth 2.0 token, revocation and metadata endpoints.

mod client;
mod metadata;
mod token;

use super::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .post("/oauth2/token", token::issue)
        .post("/oauth2/revoke", token::revoke)
        .get("/.well-known/oauth-authorization-server", metadata::authorization_server)
        .get("/.well-known/jwks.json", metadata::jwks)
}
