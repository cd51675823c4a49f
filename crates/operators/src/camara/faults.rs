//! What can go wrong with an operator, and what it means: one table.
//!
//! A row says what the check ends with, and what the breaker learns. What comes by the device is hearsay: whoever holds
//! the device can write it, so it may end a check of that device but moves no breaker.

use std::fmt;

use jiff::SignedDuration;
use ringtrue_domain::lifecycle::ErrorCode::{
    self, InternalError, MnoNoDataAvailable, MnoNotSupported, MnoResponseError, MnoServerError, MnoTimeout,
    MnoUserNotFound, NotMobileIp,
};

use crate::{breaker::Effect, client::ClientError};

/// Where in the exchange it was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Discovery,
    Keys,
    /// The device has come back, with what the operator gave it.
    Redirect,
    /// It is asked for a token without a device (CIBA).
    Backchannel,
    Token,
    IdToken,
    Api,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Discovery => "discovery",
            Stage::Keys => "keys",
            Stage::Redirect => "redirect",
            Stage::Backchannel => "backchannel",
            Stage::Token => "token",
            Stage::IdToken => "id_token",
            Stage::Api => "api",
        }
    }
}

/// What was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom<'a> {
    /// An `error` of OAuth or OpenID Connect.
    OAuth(&'a str),
    /// A `code` of CAMARA, without the name of an interface before it.
    Camara(&'a str),
    /// The status of an answer that says nothing more, or nothing that is known.
    Status(u16),
    /// The first digit of such a status.
    StatusClass(u16),
    NoAnswer(ClientError),
    Nonsense(Nonsense),
    /// The operator does not know, or may not say, what it is asked.
    NoHistory,
    /// We cannot do our part.
    Ours,
}

/// An answer that does not say what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// Not JSON, or not the members that it must have.
    Body,
    /// An error that nobody has heard of.
    UnknownError,
    /// Something comes twice that may come once.
    Repeated,
    /// Neither an error nor a code.
    NoCode,
    /// A description of someone else than whom we asked.
    OtherIssuer,
    /// The device does not come back from where it was sent, or nobody says that it does.
    OtherSender,
    /// A token that is not a bearer token.
    TokenType,
    /// An ID token that is not true, or not for this device.
    IdToken,
    /// A number that is not one.
    Number,
    /// A date that is not one, or cannot be.
    Date,
    /// A server that cannot be asked for a token without a device, though we are to.
    NoBackchannel,
}

#[derive(Debug)]
pub struct Row {
    pub symptom: Symptom<'static>,
    pub code: ErrorCode,
    pub effect: Effect,
}

const fn row(symptom: Symptom<'static>, code: ErrorCode, effect: Effect) -> Row {
    Row { symptom, code, effect }
}

use Effect::{Fails, Misconfigured, Nothing, Throttled, TimesOut, Works};
use Symptom::{Camara, NoAnswer, NoHistory, OAuth, Ours, Status, StatusClass};

pub const TABLE: &[Row] = &[
    // The subscriber cannot be told: Wi-Fi, a VPN, somebody else's SIM.
    row(OAuth("login_required"), MnoUserNotFound, Works),
    row(OAuth("interaction_required"), MnoUserNotFound, Works),
    row(OAuth("account_selection_required"), MnoUserNotFound, Works),
    row(OAuth("access_denied"), MnoUserNotFound, Works),
    row(OAuth("unknown_user_id"), MnoUserNotFound, Works),
    row(OAuth("consent_required"), MnoNoDataAvailable, Works),
    // Nobody has decided by the time that our own caller wants an answer (CIBA).
    row(OAuth("authorization_pending"), MnoTimeout, Works),
    row(OAuth("slow_down"), MnoTimeout, Works),
    row(OAuth("expired_token"), MnoTimeout, Works),
    row(OAuth("transaction_failed"), MnoServerError, Fails),
    row(OAuth("server_error"), MnoServerError, Fails),
    row(OAuth("temporarily_unavailable"), MnoTimeout, TimesOut),
    // The operator does not know us as we present ourselves.
    row(OAuth("invalid_client"), MnoServerError, Misconfigured),
    row(OAuth("unauthorized_client"), MnoServerError, Misconfigured),
    row(OAuth("invalid_scope"), MnoServerError, Misconfigured),
    row(OAuth("invalid_request_object"), MnoServerError, Misconfigured),
    row(OAuth("invalid_request_uri"), MnoServerError, Misconfigured),
    row(OAuth("request_not_supported"), MnoServerError, Misconfigured),
    row(OAuth("request_uri_not_supported"), MnoServerError, Misconfigured),
    row(OAuth("registration_not_supported"), MnoServerError, Misconfigured),
    row(OAuth("unsupported_response_type"), MnoServerError, Misconfigured),
    row(OAuth("unsupported_grant_type"), MnoServerError, Misconfigured),
    row(OAuth("invalid_dpop_proof"), MnoServerError, Misconfigured),
    // May be about the code, which the device brought: it takes several to open the breaker.
    row(OAuth("invalid_request"), MnoServerError, Fails),
    row(OAuth("invalid_grant"), MnoResponseError, Works),
    row(OAuth("invalid_token"), MnoResponseError, Nothing),
    row(OAuth("insufficient_scope"), MnoServerError, Misconfigured),
    row(OAuth("invalid_binding_message"), MnoServerError, Misconfigured),
    row(OAuth("missing_user_code"), MnoServerError, Misconfigured),
    row(OAuth("invalid_user_code"), MnoServerError, Misconfigured),
    row(OAuth("expired_login_hint_token"), MnoResponseError, Nothing),
    // Number Verification and what all interfaces of CAMARA share.
    row(Camara("USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK"), NotMobileIp, Works),
    row(Camara("IDENTIFIER_NOT_FOUND"), MnoUserNotFound, Works),
    row(Camara("NOT_FOUND"), MnoUserNotFound, Nothing),
    row(Camara("SERVICE_NOT_APPLICABLE"), MnoNotSupported, Works),
    row(Camara("PERMISSION_DENIED"), MnoServerError, Misconfigured),
    row(Camara("UNAUTHENTICATED"), MnoResponseError, Nothing),
    row(Camara("AUTHENTICATION_REQUIRED"), MnoResponseError, Nothing),
    row(Camara("INVALID_TOKEN_CONTEXT"), MnoResponseError, Nothing),
    row(Camara("MISSING_IDENTIFIER"), MnoResponseError, Nothing),
    row(Camara("UNNECESSARY_IDENTIFIER"), MnoResponseError, Nothing),
    row(Camara("UNSUPPORTED_IDENTIFIER"), MnoResponseError, Nothing),
    row(Camara("INVALID_ARGUMENT"), MnoResponseError, Nothing),
    row(Camara("OUT_OF_RANGE"), MnoResponseError, Nothing),
    row(Camara("ABORTED"), MnoResponseError, Nothing),
    row(Camara("ALREADY_EXISTS"), MnoResponseError, Nothing),
    row(Camara("CONFLICT"), MnoResponseError, Nothing),
    row(Camara("INCOMPATIBLE_STATE"), MnoResponseError, Nothing),
    row(Camara("GONE"), MnoResponseError, Nothing),
    row(Camara("FAILED_PRECONDITION"), MnoResponseError, Nothing),
    row(Camara("METHOD_NOT_ALLOWED"), MnoServerError, Fails),
    row(Camara("NOT_ACCEPTABLE"), MnoServerError, Fails),
    row(Camara("UNSUPPORTED_MEDIA_TYPE"), MnoServerError, Fails),
    row(Camara("QUOTA_EXCEEDED"), MnoServerError, Throttled),
    row(Camara("TOO_MANY_REQUESTS"), MnoServerError, Throttled),
    row(Camara("INTERNAL"), MnoServerError, Fails),
    row(Camara("NOT_IMPLEMENTED"), MnoServerError, Fails),
    row(Camara("BAD_GATEWAY"), MnoServerError, Fails),
    row(Camara("UNAVAILABLE"), MnoTimeout, TimesOut),
    row(Camara("TIMEOUT"), MnoTimeout, TimesOut),
    // Answers that say no more than their status. A path that is not there is a wrong setting, most likely.
    row(Status(401), MnoResponseError, Nothing),
    row(Status(403), MnoServerError, Fails),
    row(Status(404), MnoServerError, Fails),
    row(Status(405), MnoServerError, Fails),
    row(Status(406), MnoServerError, Fails),
    row(Status(408), MnoTimeout, TimesOut),
    row(Status(415), MnoServerError, Fails),
    row(Status(429), MnoServerError, Throttled),
    row(Status(503), MnoTimeout, TimesOut),
    row(Status(504), MnoTimeout, TimesOut),
    row(StatusClass(5), MnoServerError, Fails),
    row(StatusClass(4), MnoResponseError, Nothing),
    row(StatusClass(3), MnoResponseError, Fails),
    row(StatusClass(2), MnoResponseError, Fails),
    row(StatusClass(1), MnoResponseError, Fails),
    // No answer at all, or none that can be read.
    row(NoAnswer(ClientError::Timeout), MnoTimeout, TimesOut),
    row(NoAnswer(ClientError::ConnectTimeout), MnoTimeout, TimesOut),
    row(NoAnswer(ClientError::Unusable), MnoServerError, Misconfigured),
    row(NoAnswer(ClientError::Unresolved), MnoServerError, Fails),
    row(NoAnswer(ClientError::Refused), MnoServerError, Fails),
    row(NoAnswer(ClientError::Lost), MnoServerError, Fails),
    row(NoAnswer(ClientError::Tls), MnoServerError, Fails),
    row(NoAnswer(ClientError::TooLarge), MnoResponseError, Fails),
    row(NoAnswer(ClientError::Protocol), MnoResponseError, Fails),
    row(Symptom::Nonsense(Nonsense::Body), MnoResponseError, Fails),
    row(Symptom::Nonsense(Nonsense::UnknownError), MnoResponseError, Nothing),
    row(Symptom::Nonsense(Nonsense::Repeated), MnoResponseError, Nothing),
    row(Symptom::Nonsense(Nonsense::NoCode), MnoResponseError, Nothing),
    row(Symptom::Nonsense(Nonsense::OtherIssuer), MnoResponseError, Misconfigured),
    row(Symptom::Nonsense(Nonsense::OtherSender), MnoResponseError, Nothing),
    row(Symptom::Nonsense(Nonsense::TokenType), MnoResponseError, Fails),
    row(Symptom::Nonsense(Nonsense::IdToken), MnoResponseError, Fails),
    row(Symptom::Nonsense(Nonsense::Number), MnoResponseError, Nothing),
    row(Symptom::Nonsense(Nonsense::Date), MnoResponseError, Nothing),
    row(Symptom::Nonsense(Nonsense::NoBackchannel), MnoServerError, Misconfigured),
    row(NoHistory, MnoNoDataAvailable, Works),
    UNFORESEEN,
];

const UNFORESEEN: Row = row(Ours, InternalError, Nothing);

fn find(symptom: Symptom<'_>) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.symptom == symptom)
}

/// What went wrong, where, and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub stage: Stage,
    row: &'static Row,
    pub status: Option<u16>,
    /// When the operator wants to be asked again.
    pub retry_after: Option<SignedDuration>,
    is_known: bool,
}

impl Fault {
    pub fn new(stage: Stage, symptom: Symptom<'_>) -> Self {
        let row = find(symptom).unwrap_or(&UNFORESEEN);
        Fault { stage, row, status: None, retry_after: None, is_known: false }
    }

    pub fn nonsense(stage: Stage, what: Nonsense) -> Self {
        Fault::new(stage, Symptom::Nonsense(what))
    }

    /// An `error` that a device brought.
    pub fn of_redirect(error: &str) -> Self {
        let row = find(OAuth(error));
        let unknown = || Fault::nonsense(Stage::Redirect, Nonsense::UnknownError);
        row.map_or_else(unknown, |row| Fault::new(Stage::Redirect, row.symptom))
    }

    /// An answer that is not a success: what it calls itself counts before its status.
    pub fn of_answer(stage: Stage, status: u16, error: Option<&str>, code: Option<&str>) -> Self {
        let named = error.and_then(|error| find(OAuth(error)));
        let coded = || code.and_then(|code| find(Camara(code.rsplit('.').next().unwrap_or(code))));
        let by_status = || find(Status(status)).or_else(|| find(StatusClass(status / 100)));
        let row = named.or_else(coded).or_else(by_status).unwrap_or(&UNFORESEEN);
        Fault { status: Some(status), ..Fault::new(stage, row.symptom) }
    }

    /// The same, told once more: the breaker has learned from it.
    pub fn again(self) -> Self {
        Fault { is_known: true, ..self }
    }

    /// Noticed when a device came back. Unless its request was signed, it may have changed what it asked for on the
    /// way there, and what it brings it may have made up: then this says nothing of the operator.
    pub fn of_device(self, request_was_signed: bool) -> Self {
        let is_of_code = matches!(self.row.symptom, OAuth("invalid_grant" | "invalid_request"));
        let is_of_request = matches!(
            self.row.symptom,
            OAuth("insufficient_scope" | "invalid_scope")
                | Camara("PERMISSION_DENIED")
                | Symptom::Nonsense(Nonsense::IdToken)
        );
        if is_of_code || (is_of_request && !request_was_signed) { self.again() } else { self }
    }

    pub fn code(&self) -> ErrorCode {
        self.row.code
    }

    pub fn effect(&self) -> Effect {
        let is_hearsay = self.stage == Stage::Redirect;
        if is_hearsay || self.is_known { Effect::Nothing } else { self.row.effect }
    }

    /// Whether somebody who runs this deployment has to do something.
    pub fn is_alarm(&self) -> bool {
        self.row.effect == Effect::Misconfigured
    }

    /// Whether it is the subscriber's or the device's own matter, and happens every day.
    pub fn is_usual(&self) -> bool {
        self.row.effect == Effect::Works
    }

    /// In our words only: what an operator or a device wrote may hold anything.
    pub fn symptom(&self) -> Symptom<'static> {
        self.row.symptom
    }
}

/// For people, in our words only.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.stage {
            Stage::Discovery => "at the discovery document",
            Stage::Keys => "at the operator's keys",
            Stage::Redirect => "at a device's return",
            Stage::Backchannel => "at the backchannel",
            Stage::Token => "at the token endpoint",
            Stage::IdToken => "at an ID token",
            Stage::Api => "at the API",
        };
        match self.row.symptom {
            OAuth(error) => write!(f, "the error `{error}`")?,
            Camara(code) => write!(f, "the code `{code}`")?,
            Status(_) | StatusClass(_) => f.write_str("an unexpected status")?,
            NoAnswer(error) => write!(f, "{error}")?,
            Symptom::Nonsense(_) => f.write_str("an answer that does not say what it must")?,
            NoHistory => f.write_str("no history of the SIM")?,
            Ours => f.write_str("a fault of our own")?,
        }
        write!(f, " {place}")?;
        self.status.map_or(Ok(()), |status| write!(f, " (status {status})"))
    }
}
