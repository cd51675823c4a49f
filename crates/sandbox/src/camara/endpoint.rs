//! HTTP endpoints of the operator.

use http::Method;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `GET /.well-known/openid-configuration`
    Discovery,
    /// `GET /jwks`
    Jwks,
    /// `GET /authorize`
    Authorize,
    /// `POST /token`
    Token,
    /// `POST /bc-authorize`
    BackchannelAuthorize,
    /// `POST /number-verification/v2/verify`
    VerifyNumber,
    /// `GET /number-verification/v2/device-phone-number`
    DevicePhoneNumber,
    /// `POST /sim-swap/v2/check`
    CheckSimSwap,
    /// `POST /sim-swap/v2/retrieve-date`
    RetrieveSimSwapDate,
}

impl Endpoint {
    pub const ALL: [Self; 9] = [
        Self::Discovery,
        Self::Jwks,
        Self::Authorize,
        Self::Token,
        Self::BackchannelAuthorize,
        Self::VerifyNumber,
        Self::DevicePhoneNumber,
        Self::CheckSimSwap,
        Self::RetrieveSimSwapDate,
    ];

    pub(super) fn from_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.path() == path)
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Discovery => "/.well-known/openid-configuration",
            Self::Jwks => "/jwks",
            Self::Authorize => "/authorize",
            Self::Token => "/token",
            Self::BackchannelAuthorize => "/bc-authorize",
            Self::VerifyNumber => "/number-verification/v2/verify",
            Self::DevicePhoneNumber => "/number-verification/v2/device-phone-number",
            Self::CheckSimSwap => "/sim-swap/v2/check",
            Self::RetrieveSimSwapDate => "/sim-swap/v2/retrieve-date",
        }
    }

    pub(super) fn method(self) -> Method {
        match self {
            Self::Discovery | Self::Jwks | Self::Authorize | Self::DevicePhoneNumber => Method::GET,
            Self::Token
            | Self::BackchannelAuthorize
            | Self::VerifyNumber
            | Self::CheckSimSwap
            | Self::RetrieveSimSwapDate => Method::POST,
        }
    }

    /// CAMARA API rather than OAuth endpoint.
    pub(super) fn is_api(self) -> bool {
        matches!(self, Self::VerifyNumber | Self::DevicePhoneNumber | Self::CheckSimSwap | Self::RetrieveSimSwapDate)
    }
}
