//! Faults of a directory, active until replaced or cleared.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryFault {
    Enum(EnumFault),
    Hlr(HlrFault),
}

/// Faults of ENUM responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumFault {
    /// UDP responses are truncated; TCP works.
    Truncated,
    /// As for an unknown client address.
    Refused,
    ServerFailure,
    NoResponse,
    Delayed(Duration),
}

/// Faults of HLR responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HlrFault {
    InternalError,
    /// `retry_after` in seconds.
    TooManyRequests {
        retry_after: u32,
    },
    /// The request gets no response.
    Hang,
    /// Garbage of the same length.
    GarbledBody,
}

#[derive(Debug, Default)]
pub(super) struct ActiveFaults(Mutex<FaultState>);

#[derive(Clone, Copy, Debug, Default)]
struct FaultState {
    enum_fault: Option<EnumFault>,
    hlr_fault: Option<HlrFault>,
}

impl ActiveFaults {
    pub(super) fn set(&self, fault: DirectoryFault) {
        let mut state = self.lock();
        match fault {
            DirectoryFault::Enum(fault) => state.enum_fault = Some(fault),
            DirectoryFault::Hlr(fault) => state.hlr_fault = Some(fault),
        }
    }

    pub(super) fn clear(&self) {
        *self.lock() = FaultState::default();
    }

    pub(super) fn enum_fault(&self) -> Option<EnumFault> {
        self.lock().enum_fault
    }

    pub(super) fn hlr_fault(&self) -> Option<HlrFault> {
        self.lock().hlr_fault
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
