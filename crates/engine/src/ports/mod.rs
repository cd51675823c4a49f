//! Ports: the traits through which the engine uses its environment (clock, randomness, database, operators, HTTP).

mod clock;
mod entropy;
mod operators;
mod row_mac;
pub mod search_limit;
mod store;
mod transport;

pub use clock::{Clock, DatabaseClock, ManualClock, SystemClock, TimeSample};
pub use entropy::{Entropy, SystemEntropy};
pub use operators::{
    AuthorizationRedirect, AuthorizationRequest, AuthorizationResponse, BreakerPosition, BreakerStatus, CompleteSms,
    ConnectorHealth, ConnectorState, ConnectorStatus, Inbox, IpLocation, IpLocator, LastError, LinkStatus, LookupError,
    LookupResult, LookupSource, MessageCounts, MonitoredConnector, PartOutcome, PartialSms, Reassembly,
    SilentConnector, SilentOperation, SilentResult, SimSwapConnector, SimSwapRequest, SmsOutcome, SmsPart,
};
pub use row_mac::{AlteredRow, RowFields, RowMac, RowSigner, credential_fields};
pub use store::*;
pub use transport::{OutboundRequest, OutboundResponse, TlsError, Transport, TransportError};

#[cfg(test)]
mod tests {
    use super::*;

    /// They are stored, and values of metrics and of the command line.
    #[test]
    fn names_are_stable() {
        for (purpose, name) in [
            (KeyPurpose::Token, "token"),
            (KeyPurpose::Callback, "callback"),
            (KeyPurpose::SandboxCallback, "sandbox_callback"),
            (KeyPurpose::Seal, "seal"),
            (KeyPurpose::Link, "link"),
            (KeyPurpose::Hash, "hash"),
        ] {
            assert_eq!((purpose.into_str(), name.parse().ok()), (name, Some(purpose)));
        }
        for (purpose, name) in [(LinkPurpose::SetPassword, "set_password"), (LinkPurpose::SignIn, "sign_in")] {
            assert_eq!((purpose.into_str(), name.parse().ok()), (name, Some(purpose)));
        }
        assert!(["", "Token", "TOKEN", "token "].iter().all(|unknown| unknown.parse::<KeyPurpose>().is_err()));
        for (outcome, name) in [
            (SmsOutcome::Concluded, "concluded"),
            (SmsOutcome::TooLate, "too_late"),
            (SmsOutcome::Pending, "pending"),
            (SmsOutcome::Unmatched, "unmatched"),
            (SmsOutcome::Unusable, "unusable"),
        ] {
            assert_eq!(outcome.into_str(), name);
        }
        for (error, name) in [
            (TransportError::BlockedAddress, "blocked_address"),
            (TransportError::OwnAddressUnknown, "own_address_unknown"),
            (TransportError::Unresolved, "unresolved"),
            (TransportError::Connection, "connection"),
            (TlsError::CertificateExpired.into(), "certificate_expired"),
            (TlsError::CertificateNotYetValid.into(), "certificate_not_yet_valid"),
            (TlsError::CertificateUntrusted.into(), "certificate_untrusted"),
            (TlsError::CertificateWrongHost.into(), "certificate_wrong_host"),
            (TlsError::CertificateInvalid.into(), "certificate_invalid"),
            (TlsError::TlsVersion.into(), "tls_version"),
            (TlsError::NotTls.into(), "not_tls"),
            (TlsError::Handshake.into(), "tls"),
            (TransportError::Timeout, "timeout"),
            (TransportError::TooLarge, "too_large"),
            (TransportError::Protocol, "protocol"),
        ] {
            assert_eq!(error.into_str(), name);
        }
    }
}
