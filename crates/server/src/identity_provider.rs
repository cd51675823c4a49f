//! Builds the OpenID provider of the console from the configuration.

use std::sync::Arc;

use anyhow::Context;
use ringtrue_console::{IdentityProvider, IdentityProviderSettings};
use ringtrue_operators::{
    client::ClientSettings,
    openid_connect::{RelyingParty, RelyingPartyConfig},
};
use url::Url;

use crate::{config::OpenIdConnectSection, connectors::ConnectorFactory};

pub fn build_identity_provider(
    section: OpenIdConnectSection,
    base_url: &str,
    factory: &ConnectorFactory,
) -> anyhow::Result<IdentityProvider> {
    let OpenIdConnectSection { issuer, client_id, client_secret, scopes, provider_name, ca_file, roles_claim, policy } =
        section;
    let settings = ClientSettings { ca_file, ..ClientSettings::default() };
    let client = factory.client(settings).context("console.openid_connect.ca_file")?;
    let redirect_uri = Url::parse(&format!("{base_url}{}", IdentityProvider::CALLBACK_PATH)).context("base_url")?;
    let config = RelyingPartyConfig { issuer, client_id, client_secret, scopes, redirect_uri };
    let (clock, entropy) = (Arc::clone(&factory.clock), Arc::clone(&factory.entropy));
    let relying_party = RelyingParty::new(config, Arc::new(client), clock, entropy);
    let relying_party = relying_party.context("console.openid_connect.issuer")?;
    Ok(IdentityProvider::new(relying_party, IdentityProviderSettings { provider_name, roles_claim, policy }))
}
