//! What can go wrong with a directory. It goes wrong until another fault is set, or until the directory recovers.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Enum(EnumFault),
    Hlr(HlrFault),
}

/// What goes wrong with answers by DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumFault {
    /// No datagram is long enough: the answer comes over TCP only.
    Truncated,
    /// Whoever asks may not, as where his address is not known.
    Refused,
    ServerFailure,
    /// Nobody ever answers.
    Silent,
    Late(Duration),
}

/// What goes wrong with answers by HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HlrFault {
    InternalError,
    /// And when to come again, in seconds.
    TooManyRequests {
        retry_after: u32,
    },
    /// The request is taken, and never answered.
    Hang,
    /// The body is of as many octets, and not one of them makes sense.
    Garbage,
}

#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Set>);

#[derive(Clone, Copy, Debug, Default)]
struct Set {
    by_dns: Option<EnumFault>,
    by_http: Option<HlrFault>,
}

impl Faults {
    pub(super) fn set(&self, fault: Fault) {
        let mut set = self.lock();
        match fault {
            Fault::Enum(fault) => set.by_dns = Some(fault),
            Fault::Hlr(fault) => set.by_http = Some(fault),
        }
    }

    pub(super) fn clear(&self) {
        *self.lock() = Set::default();
    }

    pub(super) fn by_dns(&self) -> Option<EnumFault> {
        self.lock().by_dns
    }

    pub(super) fn by_http(&self) -> Option<HlrFault> {
        self.lock().by_http
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
