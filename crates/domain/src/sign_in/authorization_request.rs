//! Parameters of OpenID Connect authorization requests (OpenID Connect Core, section 3.1.2.1; RFC 7636).

use strum::{Display, IntoStaticStr};

use super::{RedirectUri, SignInSettings};
use crate::{camara::CamaraScopes, verification::Locale};

/// Limits on what clients may make us keep and return.
const MAX_STATE_BYTES: usize = 2_048;
const MAX_NONCE_BYTES: usize = 512;
const MAX_HINT_BYTES: usize = 4_096;
const MAX_LOCALES: usize = 8;

/// An authorization request of a client whose redirect URI is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRequest {
    pub redirect_uri: RedirectUri,
    pub scopes: RequestedScopes,
    /// Value that the response repeats. `None`: the request has none.
    pub state: Option<String>,
    /// Value that the ID token repeats. `None`: the request has none.
    pub nonce: Option<String>,
    /// `None`: the client does not use PKCE.
    pub code_challenge: Option<CodeChallenge>,
    pub prompt: Prompt,
    /// Maximum age of an earlier proof, in seconds. `None`: any age.
    pub max_age: Option<u32>,
    /// The number that the client expects, as it was written. `None`: the request has no hint.
    pub login_hint: Option<String>,
    /// An earlier ID token of the user who is expected. `None`: the request has none.
    pub id_token_hint: Option<String>,
    /// The languages of `ui_locales`, best first. Empty: the browser's language.
    pub locales: Vec<Locale>,
}

/// Whether the user may or must be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    /// An existing session is enough, otherwise the user is asked.
    #[default]
    IfNeeded,
    /// The user must not see a page.
    Never,
    /// A session is not enough.
    Always,
}

/// What a client asks for at the authorization endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedScopes {
    /// Claims about a user who signs in.
    SignIn(SignInScopes),
    /// A token for CAMARA's APIs. The operator must recognise the device, without the user.
    Camara(CamaraScopes),
}

impl RequestedScopes {
    /// Reads a `scope` parameter. `camara` says whether the deployment offers CAMARA's APIs.
    pub fn parse(text: &str, camara: bool) -> Result<Self, AuthorizationError> {
        let invalid = |description: String| AuthorizationError::new(AuthorizationErrorCode::InvalidScope, description);
        if camara && CamaraScopes::are_requested(text) {
            return CamaraScopes::parse(text)
                .map(RequestedScopes::Camara)
                .map_err(|error| invalid(format!("`scope`: {error}")));
        }
        let scopes = SignInScopes::parse(text).map(RequestedScopes::SignIn);
        scopes.ok_or_else(|| invalid("`scope` must contain `openid`".to_owned()))
    }

    /// Returns the scopes of a sign-in. `None`: a token for CAMARA's APIs is requested.
    pub fn sign_in_scopes(&self) -> Option<SignInScopes> {
        match self {
            RequestedScopes::SignIn(scopes) => Some(*scopes),
            RequestedScopes::Camara(_) => None,
        }
    }

    pub fn camara_scopes(&self) -> Option<&CamaraScopes> {
        match self {
            RequestedScopes::SignIn(_) => None,
            RequestedScopes::Camara(scopes) => Some(scopes),
        }
    }

    /// The granted scopes, as in a token response.
    pub fn names(&self) -> String {
        match self {
            RequestedScopes::SignIn(scopes) => scopes.names(),
            RequestedScopes::Camara(scopes) => scopes.to_string(),
        }
    }
}

/// Scopes of a sign-in besides `openid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignInScopes {
    /// The claims `phone_number` and `phone_number_verified`.
    pub phone: bool,
    /// The claim `sim_change`.
    pub sim_swap: bool,
}

impl SignInScopes {
    pub const OPENID: &'static str = "openid";
    pub const PHONE: &'static str = "phone";
    pub const SIM_SWAP: &'static str = "sim_swap";

    /// The granted scopes, as in a token response.
    pub fn names(self) -> String {
        let phone = self.phone.then_some(Self::PHONE);
        let sim_swap = self.sim_swap.then_some(Self::SIM_SWAP);
        [Some(Self::OPENID), phone, sim_swap].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Reads a `scope` parameter, which must contain `openid`. Unknown scopes are ignored (RFC 6749, section 3.3).
    pub fn parse(text: &str) -> Option<Self> {
        let has = |scope: &str| text.split(' ').any(|one| one == scope);
        has(Self::OPENID).then(|| SignInScopes { phone: has(Self::PHONE), sim_swap: has(Self::SIM_SWAP) })
    }
}

/// A PKCE challenge of the method S256: the base64url-encoded SHA-256 digest of a code verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeChallenge(String);

impl CodeChallenge {
    const CHARS: usize = 43;

    pub fn parse(text: &str) -> Option<Self> {
        let is_base64url = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (text.len() == Self::CHARS && is_base64url).then(|| CodeChallenge(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text has the form of a code verifier (RFC 7636, section 4.1).
    pub fn has_verifier_format(text: &str) -> bool {
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        (43..=128).contains(&text.len()) && text.bytes().all(is_unreserved)
    }
}

/// An error that the client gets at its redirect URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {description}")]
pub struct AuthorizationError {
    pub code: AuthorizationErrorCode,
    /// For the client's developers. Contains no personal data.
    pub description: String,
}

impl AuthorizationError {
    pub fn new(code: AuthorizationErrorCode, description: impl Into<String>) -> Self {
        AuthorizationError { code, description: description.into() }
    }

    fn invalid(description: impl Into<String>) -> Self {
        Self::new(AuthorizationErrorCode::InvalidRequest, description)
    }
}

/// The parameter `error` of an authorization response (RFC 6749, section 4.1.2.1; OpenID Connect Core, section 3.1.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AuthorizationErrorCode {
    InvalidRequest,
    UnauthorizedClient,
    AccessDenied,
    UnsupportedResponseType,
    InvalidScope,
    ServerError,
    TemporarilyUnavailable,
    LoginRequired,
    InteractionRequired,
    InvalidRequestUri,
    InvalidRequestObject,
    RequestNotSupported,
    RequestUriNotSupported,
    RegistrationNotSupported,
}

/// The parameters of a request. A repeated parameter is an error (RFC 6749, section 3.1).
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Parameters({} parameters)", self.0.len())]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// A parameter without a value counts as omitted (RFC 6749, section 3.1).
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Parameters(pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// Returns a parameter. `None`: it is absent or repeated.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(one, _)| one == name).map(|(_, value)| value.as_str());
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns the name of a repeated parameter.
    pub fn repeated(&self) -> Option<&str> {
        let mut names = self.0.iter().map(|(name, _)| name.as_str()).enumerate();
        let repeated = names.find(|(index, name)| self.0[..*index].iter().any(|(earlier, _)| earlier == name));
        repeated.map(|(_, name)| name)
    }

    /// Adds the parameters of `other`. They replace parameters with the same name.
    #[must_use]
    pub fn overridden_by(mut self, other: Parameters) -> Self {
        self.0.retain(|(name, _)| !other.0.iter().any(|(replaced, _)| replaced == name));
        self.0.extend(other.0);
        self
    }

    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

impl AuthorizationRequest {
    /// Reads the parameters of a request whose client and redirect URI are proven. `camara` says whether the deployment
    /// offers CAMARA's APIs.
    pub fn parse(
        parameters: &Parameters,
        redirect_uri: RedirectUri,
        settings: &SignInSettings,
        camara: bool,
    ) -> Result<Self, AuthorizationError> {
        let invalid = |description: &str| AuthorizationError::invalid(description);
        if let Some(name) = parameters.repeated() {
            // The name comes from the client, so it is shown only if it is a plain one.
            let is_plain = name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            return Err(invalid(&format!("repeated parameter `{}`", if is_plain { name } else { "…" })));
        }
        let text = |name: &str, limit: usize| match parameters.get(name) {
            Some(value) if value.len() > limit => Err(invalid(&format!("`{name}` has more than {limit} bytes"))),
            value => Ok(value.map(str::to_owned)),
        };
        match parameters.get("response_type") {
            Some("code") => {}
            Some(_) => {
                let description = "`response_type` must be `code`";
                return Err(AuthorizationError::new(AuthorizationErrorCode::UnsupportedResponseType, description));
            }
            None => return Err(invalid("missing parameter `response_type`; use `code`")),
        }
        if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(invalid("`response_mode` must be `query`"));
        }
        if parameters.get("registration").is_some() {
            let description = "the parameter `registration` is not supported";
            return Err(AuthorizationError::new(AuthorizationErrorCode::RegistrationNotSupported, description));
        }
        let scope =
            parameters.get("scope").ok_or_else(|| invalid("missing parameter `scope`; it contains `openid`"))?;
        let scopes = RequestedScopes::parse(scope, camara)?;
        let max_age = parameters.get("max_age").map(str::parse);
        let max_age = max_age.transpose().map_err(|_| invalid("`max_age` must be a number of seconds"))?;
        Ok(AuthorizationRequest {
            redirect_uri,
            state: text("state", MAX_STATE_BYTES)?,
            nonce: text("nonce", MAX_NONCE_BYTES)?,
            code_challenge: parse_code_challenge(parameters, settings, scopes.camara_scopes().is_some())?,
            prompt: match (parse_prompt(parameters.get("prompt").unwrap_or_default())?, &scopes) {
                // CAMARA implies `prompt=none`.
                (_, RequestedScopes::Camara(_)) => Prompt::Never,
                (prompt, RequestedScopes::SignIn(_)) => prompt,
            },
            scopes,
            max_age,
            login_hint: text("login_hint", MAX_HINT_BYTES)?,
            id_token_hint: text("id_token_hint", MAX_HINT_BYTES)?,
            locales: parameters
                .get("ui_locales")
                .into_iter()
                .flat_map(|tags| tags.split(' '))
                .filter_map(|tag| tag.parse().ok())
                .take(MAX_LOCALES)
                .collect(),
        })
    }

    /// Returns the number of the login hint: `tel:+…` (RFC 3966) or a plain number in E.164 form. `None`: there is no
    /// hint, or it has another form.
    pub fn hinted_number(&self) -> Option<&str> {
        let hint = self.login_hint.as_deref()?;
        let number = hint.strip_prefix("tel:").unwrap_or(hint);
        // Parameters of `tel` URIs follow a semicolon.
        let number = number.split(';').next().unwrap_or(number);
        number.starts_with('+').then_some(number)
    }
}

fn parse_code_challenge(
    parameters: &Parameters,
    settings: &SignInSettings,
    is_camara: bool,
) -> Result<Option<CodeChallenge>, AuthorizationError> {
    let invalid = |description: &str| AuthorizationError::invalid(description);
    match (parameters.get("code_challenge"), parameters.get("code_challenge_method")) {
        // An absent method means `plain`, which does not protect the code from somebody who reads the request.
        (Some(challenge), Some("S256")) => {
            let challenge = CodeChallenge::parse(challenge);
            challenge.map(Some).ok_or_else(|| invalid("`code_challenge` must be a base64url-encoded SHA-256 digest"))
        }
        (Some(_), _) => Err(invalid("`code_challenge_method` must be `S256`")),
        (None, Some(_)) => Err(invalid("missing parameter `code_challenge`")),
        (None, None) if settings.is_public_client() => {
            Err(invalid("missing parameter `code_challenge`: clients without a secret must use PKCE"))
        }
        (None, None) if is_camara => {
            Err(invalid("missing parameter `code_challenge`: clients of CAMARA's APIs must use PKCE"))
        }
        (None, None) => Ok(None),
    }
}

fn parse_prompt(text: &str) -> Result<Prompt, AuthorizationError> {
    let mut prompt = Prompt::IfNeeded;
    let values: Vec<_> = text.split(' ').filter(|value| !value.is_empty()).collect();
    for value in &values {
        match *value {
            "none" if values.len() > 1 => {
                return Err(AuthorizationError::invalid("`prompt=none` excludes other values"));
            }
            "none" => prompt = Prompt::Never,
            "login" | "select_account" => prompt = Prompt::Always,
            // The user consents by entering a number for this client.
            "consent" => {}
            _ => return Err(AuthorizationError::invalid("`prompt` has an unknown value")),
        }
    }
    Ok(prompt)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::ClientAuthentication, *};

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn parse_for(settings: &SignInSettings, query: &str) -> Result<AuthorizationRequest, AuthorizationError> {
        let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned();
        let uri = RedirectUri::from_stored("https://app.example/cb").unwrap();
        AuthorizationRequest::parse(&Parameters::new(pairs), uri, settings, true)
    }

    fn parse(query: &str) -> Result<AuthorizationRequest, AuthorizationError> {
        parse_for(&SignInSettings::default(), query)
    }

    #[test]
    fn request_is_read() {
        let request = parse(&format!(
            "scope=phone+openid+email&response_type=code&state=s&nonce=n&code_challenge={CHALLENGE}\
             &code_challenge_method=S256&prompt=login+consent&max_age=60&ui_locales=!+pt-BR+de&login_hint=tel:%2B44770;x=1\
             &display=popup&claims=%7B%7D&acr_values=x&extra=foobar&empty="
        ))
        .unwrap();
        assert_eq!(request.scopes.sign_in_scopes(), Some(SignInScopes { phone: true, sim_swap: false }));
        assert_eq!(request.scopes.names(), "openid phone");
        assert_eq!((request.state.as_deref(), request.nonce.as_deref()), (Some("s"), Some("n")));
        assert_eq!(request.code_challenge.as_ref().map(CodeChallenge::as_str), Some(CHALLENGE));
        assert_eq!((request.prompt, request.max_age), (Prompt::Always, Some(60)));
        assert_eq!(request.locales.iter().map(Locale::as_str).collect::<Vec<_>>(), ["pt-BR", "de"]);
        assert_eq!(request.hinted_number(), Some("+44770"));
    }

    #[test]
    fn invalid_requests_get_the_right_error() {
        use AuthorizationErrorCode as E;
        let long = "x".repeat(2_049);
        for (query, code) in [
            ("scope=openid", E::InvalidRequest),
            ("response_type=&scope=openid", E::InvalidRequest),
            ("response_type=token&scope=openid", E::UnsupportedResponseType),
            ("response_type=code+id_token&scope=openid", E::UnsupportedResponseType),
            ("response_type=code", E::InvalidRequest),
            ("response_type=code&scope=phone", E::InvalidScope),
            ("response_type=code&scope=OPENID", E::InvalidScope),
            ("response_type=code&scope=sim-swap", E::InvalidScope),
            ("response_type=code&scope=sim-swap+dpv:Fraud+email", E::InvalidScope),
            ("response_type=code&scope=sim-swap+dpv:Fraud", E::InvalidRequest),
            ("response_type=code&scope=openid&response_mode=fragment", E::InvalidRequest),
            ("response_type=code&scope=openid&registration=%7B%7D", E::RegistrationNotSupported),
            ("response_type=code&scope=openid&state=1&state=2", E::InvalidRequest),
            ("response_type=code&scope=openid&prompt=none+login", E::InvalidRequest),
            ("response_type=code&scope=openid&prompt=often", E::InvalidRequest),
            ("response_type=code&scope=openid&max_age=-1", E::InvalidRequest),
            ("response_type=code&scope=openid&max_age=x", E::InvalidRequest),
            ("response_type=code&scope=openid&code_challenge_method=S256", E::InvalidRequest),
            (&format!("response_type=code&scope=openid&code_challenge={CHALLENGE}"), E::InvalidRequest),
            (
                &format!("response_type=code&scope=openid&code_challenge={CHALLENGE}&code_challenge_method=plain"),
                E::InvalidRequest,
            ),
            ("response_type=code&scope=openid&code_challenge=short&code_challenge_method=S256", E::InvalidRequest),
            (&format!("response_type=code&scope=openid&state={long}"), E::InvalidRequest),
        ] {
            assert_eq!(parse(query).map_err(|error| error.code), Err(code), "{query}");
        }
    }

    #[test]
    fn camara_implies_that_the_user_is_not_asked() {
        let request = parse(&format!(
            "scope=sim-swap+dpv:Fraud&response_type=code&prompt=login&code_challenge={CHALLENGE}\
             &code_challenge_method=S256"
        ))
        .unwrap();
        assert_eq!(request.prompt, Prompt::Never);
        assert_eq!(request.scopes.names(), "dpv:Fraud sim-swap");
        let settings = SignInSettings::default();
        let pairs = [("scope", "openid sim-swap dpv:Fraud"), ("response_type", "code")];
        let parameters = Parameters::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let uri = RedirectUri::from_stored("https://app.example/cb").unwrap();
        let request = AuthorizationRequest::parse(&parameters, uri, &settings, false).unwrap();
        assert_eq!(request.scopes.names(), "openid", "unknown scopes are ignored where the APIs are off");
    }

    #[test]
    fn public_clients_must_use_pkce() {
        let settings = SignInSettings {
            token_endpoint_auth_method: Some(ClientAuthentication::None),
            ..SignInSettings::default()
        };
        let error = parse_for(&settings, "response_type=code&scope=openid").unwrap_err();
        assert_eq!(error.code, AuthorizationErrorCode::InvalidRequest);
        let query = format!("response_type=code&scope=openid&code_challenge={CHALLENGE}&code_challenge_method=S256");
        assert!(parse_for(&settings, &query).is_ok());
    }

    #[test]
    fn only_numbers_are_hints() {
        for (hint, number) in [
            ("tel:+447700900123", Some("+447700900123")),
            ("%2B447700900123", Some("+447700900123")),
            ("buffy@issuer.example", None),
            ("tel:7700", None),
            ("ipport:1.2.3.4:80", None),
        ] {
            let request = parse(&format!("response_type=code&scope=openid&login_hint={}", hint.replace('+', "%2B")));
            assert_eq!(request.unwrap().hinted_number(), number, "{hint}");
        }
    }

    #[test]
    fn parameters_of_a_request_object_take_precedence() {
        let pairs = |query: &str| Parameters::new(url::form_urlencoded::parse(query.as_bytes()).into_owned());
        let merged = pairs("a=1&b=2").overridden_by(pairs("b=3&c=4"));
        assert_eq!((merged.get("a"), merged.get("b"), merged.get("c")), (Some("1"), Some("3"), Some("4")));
    }

    proptest! {
        #[test]
        fn no_request_panics(query in "\\PC{0,200}|(scope|prompt|max_age|state|login_hint)=[ -~]{0,40}") {
            let _ = parse(&format!("response_type=code&scope=openid&{query}")).map(|request| {
                request.hinted_number().map(str::to_owned)
            });
        }
    }
}
