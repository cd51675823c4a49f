//! The configured OpenID provider, with which users sign in to the console.

use ringtrue_engine::accounts::{ExternalIdentity, IdentityPolicy};
use ringtrue_operators::openid_connect::{
    AuthorizationRedirect, Claims, RelyingParty, RelyingPartyError, SubjectClaims,
};
use serde_json::Value;

/// Maximum length of a subject. OpenID Connect Core limits it to 255 ASCII characters.
const MAX_SUBJECT_BYTES: usize = 255;

#[derive(Debug)]
pub struct IdentityProvider {
    relying_party: RelyingParty,
    settings: IdentityProviderSettings,
}

/// Settings of `console.openid_connect` that determine how claims are read and which rights they grant.
#[derive(Clone, Debug)]
pub struct IdentityProviderSettings {
    pub provider_name: String,
    pub roles_claim: String,
    pub policy: IdentityPolicy,
}

impl IdentityProvider {
    /// Path to which the provider redirects browsers after sign-in.
    pub const CALLBACK_PATH: &str = "/console/openid-connect/callback";

    pub fn new(relying_party: RelyingParty, settings: IdentityProviderSettings) -> Self {
        IdentityProvider { relying_party, settings }
    }

    /// Name of the provider for display.
    pub fn name(&self) -> &str {
        &self.settings.provider_name
    }

    /// Returns the rules that decide who gets an account and which rights the roles claim grants.
    pub fn policy(&self) -> &IdentityPolicy {
        &self.settings.policy
    }

    /// Checks whether the provider can be used. For `ringtrue doctor`.
    pub async fn check(&self) -> Result<(), RelyingPartyError> {
        self.relying_party.discover().await
    }

    pub async fn build_authorization_redirect(&self, state: &str) -> Result<AuthorizationRedirect, RelyingPartyError> {
        self.relying_party.build_authorization_redirect(state).await
    }

    /// Redeems the authorization code in the callback's query. `None`: the claims contain no valid subject.
    pub async fn receive_identity(
        &self,
        query: &[(String, String)],
        secrets: &[u8],
    ) -> Result<Option<ExternalIdentity>, RelyingPartyError> {
        let is_complete = |id_token: &Claims| {
            has_confirmable_email(id_token)
                && (!self.settings.policy.grants_access() || find_claim(id_token, &self.settings.roles_claim).is_some())
        };
        let claims = self.relying_party.handle_authorization_response(query, secrets, is_complete).await?;
        Ok(self.identity(&claims))
    }

    /// Builds the identity from the claims. The subject comes from the ID token. `email` and `email_verified` come from
    /// the same document: from the ID token if it has both, otherwise from userinfo if it has both. Without
    /// `email_verified` beside it, an address is not confirmed. The roles claim comes from the ID token if present,
    /// otherwise from userinfo.
    fn identity(&self, claims: &SubjectClaims) -> Option<ExternalIdentity> {
        let subject = claims.id_token.get("sub").and_then(Value::as_str);
        let subject = subject.filter(|subject| (1..=MAX_SUBJECT_BYTES).contains(&subject.len()))?;
        let address = claims
            .find_document(has_confirmable_email)
            .or_else(|| claims.find_document(|document| document.contains_key("email")));
        let address_claim = |name| address.and_then(|document| document.get(name));
        let roles = claims.find_document(|document| find_claim(document, &self.settings.roles_claim).is_some());
        Some(ExternalIdentity {
            issuer: self.relying_party.issuer().to_owned(),
            subject: subject.to_owned(),
            email: address_claim("email").and_then(Value::as_str).and_then(|email| email.parse().ok()),
            // Some providers send `email_verified` as a string.
            is_email_verified: address_claim("email_verified").is_some_and(|value| *value == true || *value == "true"),
            roles: roles.map(|document| claim_values(document, &self.settings.roles_claim)).unwrap_or_default(),
        })
    }
}

fn has_confirmable_email(claims: &Claims) -> bool {
    claims.contains_key("email") && claims.contains_key("email_verified")
}

/// Finds a claim by its name. If no claim has this name, the name is read as a path to a nested member, separated by
/// dots.
fn find_claim<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    let by_path = || {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    };
    claims.get(name).or_else(by_path)
}

/// Returns the values of a claim, which may be a string or a list of strings.
fn claim_values(claims: &Claims, name: &str) -> Vec<String> {
    match find_claim(claims, name) {
        Some(Value::String(value)) => vec![value.clone()],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claim_may_be_a_string_a_list_or_a_path() {
        let claims = json!({
            "group": "one",
            "groups": ["one", 2, "three"],
            "realm_access": { "roles": ["four"] },
            "https://example.com/roles": ["five"],
            "flag": true,
        });
        let claims = claims.as_object().unwrap();
        for (name, values) in [
            ("group", &["one"][..]),
            ("groups", &["one", "three"]),
            ("realm_access.roles", &["four"]),
            ("https://example.com/roles", &["five"]),
            ("realm_access", &[]),
            ("realm_access.other", &[]),
            ("flag", &[]),
            ("missing", &[]),
        ] {
            assert_eq!(claim_values(claims, name), values, "{name}");
        }
    }
}
