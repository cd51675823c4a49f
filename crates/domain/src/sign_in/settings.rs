//! A project's settings as an OpenID client.

use std::str::FromStr;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::RedirectUri;
use crate::{parse_error::default_error, product::join_names, sim_swap::SimSwapPeriod, web_url::CallbackUrl};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInSettings {
    /// Empty: nobody can sign in.
    pub redirect_uris: Vec<RedirectUri>,
    /// Period within which a SIM change is reported. `None`: [`SimSwapPeriod::DEFAULT`].
    pub sim_swap_period: Option<SimSwapPeriod>,
    /// How long a browser stays signed in. `None`: every request needs a new proof.
    pub session: Option<SessionLifetime>,
    /// `None`: the client secret, by HTTP Basic or in the form.
    pub token_endpoint_auth_method: Option<ClientAuthentication>,
    /// The client's public keys (JWKS).
    pub jwks: Option<ClientKeys>,
    /// URL of the client's public keys. `jwks` takes precedence.
    pub jwks_uri: Option<CallbackUrl>,
    /// `None`: RS256.
    pub id_token_signed_response_alg: Option<IdTokenAlgorithm>,
}

impl SignInSettings {
    pub const MAX_REDIRECT_URIS: usize = 20;

    pub fn find_redirect_uri(&self, text: &str) -> Option<&RedirectUri> {
        self.redirect_uris.iter().find(|uri| uri.as_str() == text)
    }

    /// Whether the client has no secret and must therefore use PKCE.
    pub fn is_public_client(&self) -> bool {
        self.token_endpoint_auth_method == Some(ClientAuthentication::None)
    }

    pub fn accepts_authentication(&self, method: ClientAuthentication) -> bool {
        match self.token_endpoint_auth_method {
            Some(required) => method == required,
            None => matches!(method, ClientAuthentication::ClientSecretBasic | ClientAuthentication::ClientSecretPost),
        }
    }

    pub fn id_token_algorithm(&self) -> IdTokenAlgorithm {
        self.id_token_signed_response_alg.unwrap_or(IdTokenAlgorithm::Rs256)
    }
}

/// How a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(
    serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidClientAuthentication,
    parse_err_fn = default_error
)]
pub enum ClientAuthentication {
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
    /// A public client, such as an app without a backend.
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown authentication method; use {}",
    join_names(ClientAuthentication::VARIANTS.iter().map(ClientAuthentication::into_str))
)]
pub struct InvalidClientAuthentication;

impl ClientAuthentication {
    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// Signature algorithm of ID tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(
    serialize_all = "UPPERCASE", const_into_str, parse_err_ty = InvalidIdTokenAlgorithm, parse_err_fn = default_error
)]
pub enum IdTokenAlgorithm {
    Rs256,
    Es256,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown signature algorithm; use {}",
    join_names(IdTokenAlgorithm::VARIANTS.iter().map(IdTokenAlgorithm::into_str))
)]
pub struct InvalidIdTokenAlgorithm;

impl IdTokenAlgorithm {
    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// How long a browser stays signed in, in seconds. Zero: not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLifetime(u32);

impl SessionLifetime {
    const ALLOWED: std::ops::RangeInclusive<u32> = 0..=86_400;

    pub fn seconds(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session lasts 0 to 86400 seconds")]
pub struct InvalidSessionLifetime;

impl TryFrom<i64> for SessionLifetime {
    type Error = InvalidSessionLifetime;

    fn try_from(seconds: i64) -> Result<Self, InvalidSessionLifetime> {
        let seconds = u32::try_from(seconds).ok().filter(|seconds| Self::ALLOWED.contains(seconds));
        seconds.map(SessionLifetime).ok_or(InvalidSessionLifetime)
    }
}

/// A client's public keys: a JSON Web Key Set (RFC 7517) as text. Whether it contains usable keys is not a rule of this
/// crate, which reads no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKeys(String);

impl ClientKeys {
    pub const MAX_BYTES: usize = 12_288;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key set is a JSON object of at most {} bytes", ClientKeys::MAX_BYTES)]
pub struct InvalidClientKeys;

impl FromStr for ClientKeys {
    type Err = InvalidClientKeys;

    fn from_str(text: &str) -> Result<Self, InvalidClientKeys> {
        let text = text.trim();
        let is_object = text.len() <= Self::MAX_BYTES && text.starts_with('{') && text.ends_with('}');
        if is_object { Ok(ClientKeys(text.to_owned())) } else { Err(InvalidClientKeys) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registrations() {
        let names = ClientAuthentication::VARIANTS.iter().map(|method| method.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]);
        assert_eq!(IdTokenAlgorithm::VARIANTS.iter().map(|one| one.as_str()).collect::<Vec<_>>(), ["RS256", "ES256"]);
        assert_eq!("ES256".parse(), Ok(IdTokenAlgorithm::Es256));
        assert_eq!("es256".parse::<IdTokenAlgorithm>(), Err(InvalidIdTokenAlgorithm));
    }

    #[test]
    fn only_the_configured_authentication_is_accepted() {
        use ClientAuthentication::{ClientSecretBasic, ClientSecretPost, None as Public, PrivateKeyJwt};
        for (configured, accepted) in [
            (Option::None, &[ClientSecretBasic, ClientSecretPost][..]),
            (Some(ClientSecretBasic), &[ClientSecretBasic]),
            (Some(PrivateKeyJwt), &[PrivateKeyJwt]),
            (Some(Public), &[Public]),
        ] {
            let settings = SignInSettings { token_endpoint_auth_method: configured, ..SignInSettings::default() };
            let all = ClientAuthentication::VARIANTS.iter().copied();
            let actual: Vec<_> = all.filter(|method| settings.accepts_authentication(*method)).collect();
            assert_eq!(actual, accepted, "{configured:?}");
            assert_eq!(settings.is_public_client(), configured == Some(Public));
        }
    }

    #[test]
    fn sessions_last_a_day_at_most() {
        for (seconds, is_valid) in [(-1, false), (0, true), (86_400, true), (86_401, false)] {
            assert_eq!(SessionLifetime::try_from(seconds).is_ok(), is_valid, "{seconds}");
        }
    }
}
