//! Checks the claims of ID tokens (OpenID Connect Core, 3.1.3.7).

use serde_json::{Map, Value};

/// Tolerated difference between our clock and an issuer's.
pub(crate) const CLOCK_SKEW_SECS: i64 = 60;

pub(crate) struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    pub now: i64,
}

impl ExpectedClaims<'_> {
    /// Checks all claims. The error is the name of the first invalid claim.
    pub fn check(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let text = |name| claims.get(name).and_then(Value::as_str);
        let timestamp = |name| claims.get(name).and_then(Value::as_i64);
        let (audience_matches, has_other_audiences) = match claims.get("aud") {
            Some(Value::String(audience)) => (audience == self.client_id, false),
            Some(Value::Array(all)) => (all.iter().any(|one| one == self.client_id), all.len() > 1),
            _ => (false, false),
        };
        let authorized_party = claims.get("azp");
        let azp_matches =
            authorized_party.map_or(!has_other_audiences, |authorized_party| authorized_party == self.client_id);
        let claims_valid = [
            ("iss", text("iss") == Some(self.issuer)),
            ("aud", audience_matches),
            ("azp", azp_matches),
            ("exp", timestamp("exp").is_some_and(|expires_at| self.now < expires_at.saturating_add(CLOCK_SKEW_SECS))),
            ("iat", timestamp("iat").is_some_and(|issued_at| issued_at <= self.now + CLOCK_SKEW_SECS)),
            ("nonce", text("nonce") == Some(self.nonce)),
        ];
        claims_valid.iter().find(|(_, is_valid)| !is_valid).map_or(Ok(()), |(name, _)| Err(*name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_claim_is_checked() {
        let expected = ExpectedClaims { issuer: "https://op.example", client_id: "us", nonce: "n", now: 1_000 };
        let valid = json!({ "iss": "https://op.example", "aud": "us", "exp": 1_300, "iat": 1_000, "nonce": "n" });
        let check = |changes: &Value| {
            let mut claims = valid.as_object().unwrap().clone();
            claims.extend(changes.as_object().unwrap().clone());
            expected.check(&claims)
        };
        for accepted in [
            json!({}),
            json!({ "aud": ["us"] }),
            json!({ "aud": ["us", "others"], "azp": "us" }),
            json!({ "azp": "us", "exp": 941, "iat": 1_060 }),
            json!({ "exp": i64::MAX, "iat": i64::MIN }),
        ] {
            assert_eq!(check(&accepted), Ok(()), "{accepted}");
        }
        for (rejected, claim) in [
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
            assert_eq!(check(&rejected), Err(claim), "{rejected}");
        }
    }
}
