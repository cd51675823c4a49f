//! Where a device is sent: the authorization request.

use ringtrue_domain::tenancy::Mode;
use ringtrue_engine::ports::{Departure, Question};
use serde_json::{Map, Value, json};
use url::{Position, Url, form_urlencoded::Serializer};

use super::{
    Camara,
    config::{Endpoints, LoginHint, RequestObject, ScopeStyle},
    memory::Memory,
};
use crate::authentication::{Audience, GOOD_FOR};

/// What stands beside a request object too. All but the last must; with `state` an operator that cannot read the object
/// still sends the device back to its check.
const REPEATED: [&str; 5] = ["response_type", "client_id", "redirect_uri", "scope", "state"];

impl Camara {
    /// `None`: the request cannot be signed, or there is nobody to send it to.
    pub(super) fn authorization_url(
        &self,
        departure: &Departure<'_>,
        memory: &Memory,
        endpoints: &Endpoints,
        scope: &str,
    ) -> Option<String> {
        let endpoint = endpoints.authorization.as_ref()?;
        let mut parameters = vec![
            ("response_type", "code".to_owned()),
            ("client_id", self.config.client_id.clone()),
            ("redirect_uri", self.config.redirect_uri.to_string()),
            ("scope", self.scope_of_user(&[scope])),
            ("state", departure.ticket.to_owned()),
            ("nonce", memory.nonce()),
            // A silent check shows nothing to anybody.
            ("prompt", "none".to_owned()),
        ];
        if self.config.pkce {
            parameters.push(("code_challenge", memory.challenge()));
            parameters.push(("code_challenge_method", "S256".to_owned()));
        }
        parameters.extend(self.login_hint(departure).map(|hint| ("login_hint", hint)));
        if let RequestObject::Signed { key, audience } = &self.config.request_object {
            let audience = match audience {
                Audience::Endpoint => endpoint.as_str(),
                Audience::Issuer => &endpoints.issuer,
            };
            let claims = self.request_object(&parameters, audience);
            parameters.retain(|(name, _)| REPEATED.contains(name));
            parameters.push(("request", key.sign("oauth-authz-req+jwt", &claims)?));
        }
        Some(with_query(endpoint, &parameters))
    }

    /// What is asked for where a token is about a user.
    pub(super) fn scope_of_user(&self, operations: &[&str]) -> String {
        let operations = self.purposeful(operations);
        if self.config.scopes.openid { format!("openid {operations}") } else { operations }
    }

    /// What may be asked with a token, and why it is.
    pub(super) fn purposeful(&self, operations: &[&str]) -> String {
        let scopes = &self.config.scopes;
        match (&scopes.purpose, scopes.style) {
            (None, _) => operations.join(" "),
            (Some(purpose), ScopeStyle::Space) => format!("{purpose} {}", operations.join(" ")),
            (Some(purpose), ScopeStyle::Hash) => {
                let each = operations.iter().map(|operation| format!("{purpose}#{operation}"));
                each.collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn login_hint(&self, departure: &Departure<'_>) -> Option<String> {
        let claimed = match departure.question {
            Question::IsNumber(number) => Some(number),
            Question::WhichNumber => None,
        };
        let simulated = departure.sim.filter(|_| self.config.mode == Mode::Sandbox);
        let number = simulated.or(claimed);
        match self.config.login_hint {
            LoginHint::None => None,
            LoginHint::Tel => number.map(|number| format!("tel:{}", number.as_str())),
            LoginHint::E164 => number.map(|number| number.as_str().to_owned()),
            LoginHint::IpPort if departure.device.is_ipv6() => Some(format!("ipport:[{}]", departure.device)),
            LoginHint::IpPort => Some(format!("ipport:{}", departure.device)),
        }
    }

    /// The parameters as claims. It has no `sub`, so that nobody takes it for an assertion of who we are.
    fn request_object(&self, parameters: &[(&str, String)], audience: &str) -> Value {
        let claim = |(name, value): &(&str, String)| ((*name).to_owned(), Value::from(value.as_str()));
        let mut claims: Map<String, Value> = parameters.iter().map(claim).collect();
        let now = self.now();
        let own = json!({
            "iss": self.config.client_id,
            "aud": audience,
            "iat": now,
            "exp": now + GOOD_FOR,
            "jti": self.identifier(),
        });
        claims.extend(own.as_object().cloned().unwrap_or_default());
        Value::Object(claims)
    }
}

/// Spaces as `%20`: every server reads that, and not every one reads a plus.
fn with_query(endpoint: &Url, parameters: &[(&str, String)]) -> String {
    let own = &endpoint[Position::BeforeQuery..Position::AfterQuery];
    let mut query = Serializer::for_suffix(own.to_owned(), 0);
    let query = query.extend_pairs(parameters).finish().replace('+', "%20");
    format!("{}?{query}", &endpoint[..Position::AfterPath])
}
