//! Ports: the traits through which the engine uses its environment (clock, randomness, database, operators, HTTP).

mod clock;
mod entropy;
mod operators;
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
pub use store::*;
pub use transport::{OutboundRequest, OutboundResponse, Transport, TransportError};
