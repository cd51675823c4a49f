//! The tokens that questions about SIM cards are asked with.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::SimSwapQuestion;
use serde_json::json;
use url::form_urlencoded::Serializer;

use super::{SimSwapConfig, SimSwapFlow, SimSwapOperation};
use crate::{
    authentication::{Audience, GOOD_FOR},
    camara::{
        Camara,
        config::Endpoints,
        faults::{Fault, Stage, Symptom},
        token::Tokens,
    },
    jwt::SigningKey,
    token_keeper::{Fresh, NoToken, TokenKeeper},
};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FORM: &str = "application/x-www-form-urlencoded";

pub struct Access {
    /// `Bearer …`, as it is sent.
    pub bearer: HeaderValue,
    /// The token says which number is meant.
    pub is_of_the_number: bool,
    /// The token may be older than the question.
    pub is_kept: bool,
}

impl Access {
    fn of_the_number(tokens: Tokens) -> Self {
        Access { bearer: tokens.bearer, is_of_the_number: true, is_kept: false }
    }
}

/// The tokens of ours, one for each scope: an operator that refuses one scope may give the other.
pub(in crate::camara) struct OwnTokens {
    retrieve_date: TokenKeeper<Fault>,
    check: TokenKeeper<Fault>,
}

impl OwnTokens {
    pub fn new() -> Self {
        OwnTokens { retrieve_date: TokenKeeper::new(), check: TokenKeeper::new() }
    }

    pub(super) fn of(&self, operation: SimSwapOperation, config: &SimSwapConfig) -> &TokenKeeper<Fault> {
        match operation {
            SimSwapOperation::Check if config.check_scope != config.retrieve_date_scope => &self.check,
            SimSwapOperation::Check | SimSwapOperation::RetrieveDate => &self.retrieve_date,
        }
    }
}

impl Camara {
    pub(super) async fn access(
        &self,
        config: &SimSwapConfig,
        operation: SimSwapOperation,
        question: SimSwapQuestion<'_>,
    ) -> Result<Access, Fault> {
        let scope = config.scope(operation);
        match &config.flow {
            SimSwapFlow::ClientCredentials => {
                let tokens = self.sim_swap_tokens.of(operation, config);
                let bearer = match tokens.kept(question.now) {
                    Some(bearer) => bearer,
                    None => Box::pin(self.renewed(tokens, scope)).await?,
                };
                Ok(Access { bearer, is_of_the_number: false, is_kept: true })
            }
            // In boxes, or those that need none of this would carry the room for it along.
            SimSwapFlow::Ciba => {
                let endpoints = self.server.endpoints(&self.asking).await?;
                let scope = self.scope_of_user(&[scope]);
                let tokens = Box::pin(self.by_backchannel(&scope, question, &endpoints)).await;
                tokens.map(Access::of_the_number)
            }
            SimSwapFlow::JwtBearer { key, audience } => {
                let endpoints = self.server.endpoints(&self.asking).await?;
                let scope = self.scope_of_user(&[scope]);
                let tokens = Box::pin(self.by_assertion(&scope, question.number, key, *audience, &endpoints)).await;
                tokens.map(Access::of_the_number)
            }
        }
    }

    async fn renewed(&self, tokens: &TokenKeeper<Fault>, scope: &str) -> Result<HeaderValue, Fault> {
        let token = tokens.token(&*self.asking.clock, self.own_token(scope)).await;
        token.map_err(|none| match none {
            NoToken::Refused(fault) => fault,
            // What the breaker has learned from.
            NoToken::RefusedToAnother(fault) => fault.again(),
        })
    }

    /// One for all numbers. It has no user, so there is nobody to be told of by the scope `openid`.
    async fn own_token(&self, scope: &str) -> Result<Fresh, Fault> {
        let endpoints = self.server.endpoints(&self.asking).await?;
        let scope = self.purposeful(&[scope]);
        let tokens = self.grant(&[("grant_type", "client_credentials"), ("scope", &scope)], &endpoints).await?;
        Ok(Fresh { token: tokens.bearer, good_for: tokens.good_for })
    }

    /// The signature says who we are, too: nothing else does.
    async fn by_assertion(
        &self,
        scope: &str,
        number: &Msisdn,
        key: &SigningKey,
        audience: Audience,
        endpoints: &Endpoints,
    ) -> Result<Tokens, Fault> {
        let now = self.now();
        let claims = json!({
            "iss": self.config.client_id,
            "sub": format!("tel:{}", number.as_str()),
            "aud": match audience {
                Audience::Endpoint => endpoints.token.as_str(),
                Audience::Issuer => &endpoints.issuer,
            },
            "iat": now,
            "exp": now + GOOD_FOR,
            "jti": self.identifier(),
            "scope": scope,
        });
        let assertion = key.sign("JWT", &claims).ok_or(Fault::new(Stage::Token, Symptom::Ours))?;
        let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(FORM))]);
        let answer = self.asking.post(Stage::Token, &endpoints.token, headers, form.into_bytes()).await?;
        Tokens::read(&answer.body)
    }
}
