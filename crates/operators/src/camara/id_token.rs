//! Whether an ID token is true, fresh, and the answer to this device's question.

use serde_json::{Map, Value};

use super::{
    Camara,
    config::Endpoints,
    faults::{Fault, Nonsense, Stage},
    memory::Memory,
};
use crate::jwt::NotATrueToken;

/// How far apart clocks may be, in seconds.
const SKEW: i64 = 60;

impl Camara {
    pub(super) async fn check_id_token(
        &self,
        token: &str,
        memory: &Memory,
        endpoints: &Endpoints,
    ) -> Result<(), Fault> {
        // Where no keys are named no ID token is asked for. One that comes is not looked at, and nothing is taken from it.
        let Some(url) = &endpoints.keys else { return Ok(()) };
        let keys = self.keys.get(&self.asking, url).await?;
        let verified = match keys.verify(token) {
            Err(NotATrueToken::UnknownKey) => self.keys.newer(&self.asking, url, &keys).await?.verify(token),
            verified => verified,
        };
        let claims = verified.map_err(|reason| self.not_believed(&reason.to_string()))?;
        let expected = Expected {
            issuer: &endpoints.issuer,
            client: &self.config.client_id,
            nonce: &memory.nonce(),
            now: self.now(),
        };
        expected.check(&claims).map_err(|claim| self.not_believed(claim))
    }

    fn not_believed(&self, reason: &str) -> Fault {
        tracing::warn!(connector = %self.config.name, reason, "an ID token is not believed");
        Fault::nonsense(Stage::IdToken, Nonsense::IdToken)
    }
}

struct Expected<'a> {
    issuer: &'a str,
    client: &'a str,
    nonce: &'a str,
    now: i64,
}

impl Expected<'_> {
    /// The claim that is wrong, if one is.
    fn check(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let text = |name| claims.get(name).and_then(Value::as_str);
        let second = |name| claims.get(name).and_then(Value::as_i64);
        let (is_for_us, is_for_others) = match claims.get("aud") {
            Some(Value::String(audience)) => (audience == self.client, false),
            Some(Value::Array(all)) => (all.iter().any(|one| one == self.client), all.len() > 1),
            _ => (false, false),
        };
        let party = claims.get("azp");
        let party_is_right = party.map_or(!is_for_others, |party| party == self.client);
        let rules = [
            ("iss", text("iss") == Some(self.issuer)),
            ("aud", is_for_us),
            ("azp", party_is_right),
            ("exp", second("exp").is_some_and(|until| self.now < until.saturating_add(SKEW))),
            ("iat", second("iat").is_some_and(|since| since <= self.now + SKEW)),
            ("nonce", text("nonce") == Some(self.nonce)),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(name, _)| Err(*name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_claim_counts() {
        let expected = Expected { issuer: "https://op.example", client: "us", nonce: "n", now: 1_000 };
        let right = json!({ "iss": "https://op.example", "aud": "us", "exp": 1_300, "iat": 1_000, "nonce": "n" });
        let check = |changes: &Value| {
            let mut claims = right.as_object().unwrap().clone();
            claims.extend(changes.as_object().unwrap().clone());
            expected.check(&claims)
        };
        for good in [
            json!({}),
            json!({ "aud": ["us"] }),
            json!({ "aud": ["us", "others"], "azp": "us" }),
            json!({ "azp": "us", "exp": 941, "iat": 1_060 }),
            json!({ "exp": i64::MAX, "iat": i64::MIN }),
        ] {
            assert_eq!(check(&good), Ok(()), "{good}");
        }
        for (wrong, claim) in [
            (json!({ "iss": "https://op.example/" }), "iss"),
            (json!({ "iss": null }), "iss"),
            (json!({ "aud": "others" }), "aud"),
            (json!({ "aud": ["others"] }), "aud"),
            (json!({ "aud": null }), "aud"),
            (json!({ "aud": ["us", "others"] }), "azp"),
            (json!({ "azp": "others" }), "azp"),
            (json!({ "azp": null }), "azp"),
            (json!({ "exp": 940 }), "exp"),
            (json!({ "exp": "1300" }), "exp"),
            (json!({ "iat": 1_061 }), "iat"),
            (json!({ "iat": null }), "iat"),
            (json!({ "nonce": "other" }), "nonce"),
            (json!({ "nonce": null }), "nonce"),
        ] {
            assert_eq!(check(&wrong), Err(claim), "{wrong}");
        }
    }
}
