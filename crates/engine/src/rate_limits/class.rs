//! Classes of requests, and the rate limit of each class.

use ringtrue_domain::tenancy::RateLimits;

/// A class of requests that has its own rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateLimitClass {
    /// Requests that create a check or redeem a code.
    Create,
    /// Browsers that begin a silent sign-in or CAMARA's network authentication. Counted per workspace, apart from its API
    /// requests, because anybody can send them.
    SilentAuthorization,
    /// Requests that read checks.
    Read,
    Eligibility,
    Management,
    /// Token and revoke requests.
    Token,
    /// Visits of a check's device URL. Counted per check if the URL's token is right, otherwise per IP address.
    Device,
    /// Devices that return from the operator with a `state` that was used before. Counted per IP address.
    DeviceReplay,
    /// Console requests without a session or link that is known to be valid. Counted per IP address.
    Console,
    /// Console pages of a workspace. Counted per workspace.
    ConsolePage,
}

impl RateLimitClass {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            RateLimitClass::Create => "create",
            RateLimitClass::SilentAuthorization => "silent_authorization",
            RateLimitClass::Read => "read",
            RateLimitClass::Eligibility => "eligibility",
            RateLimitClass::Management => "management",
            RateLimitClass::Token => "token",
            RateLimitClass::Device => "device",
            RateLimitClass::DeviceReplay => "device_replay",
            RateLimitClass::Console => "console",
            RateLimitClass::ConsolePage => "console_page",
        }
    }
}

/// The deployment's rate limits. A workspace can override some of them. The unit is requests per second, except for
/// `device_visits` and `failed_logins`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRateLimits {
    pub create: u32,
    pub read: u32,
    pub eligibility: u32,
    pub management: u32,
    /// Token and revoke requests per client.
    pub token: u32,
    /// Token and revoke requests per workspace, of all its clients together.
    pub token_per_workspace: u32,
    /// Per IP address: visits of device URLs with a wrong token, and returns from the operator with a used `state`.
    pub device: u32,
    /// Visits of a device URL with a valid token: total per check over its lifetime.
    pub device_visits: u32,
    /// Console requests without a valid session, per IP address.
    pub console: u32,
    /// Console requests per session. Each node counts separately.
    pub console_per_session: u32,
    /// Console pages per workspace, of all its members together.
    pub console_per_workspace: u32,
    /// Failed client authentications per minute, per client and address.
    pub failed_logins: u32,
}

impl Default for DefaultRateLimits {
    fn default() -> Self {
        DefaultRateLimits {
            create: 50,
            read: 100,
            eligibility: 50,
            management: 25,
            token: 50,
            token_per_workspace: 200,
            device: 20,
            device_visits: 20,
            console: 20,
            console_per_session: 20,
            console_per_workspace: 50,
            failed_logins: 10,
        }
    }
}

impl DefaultRateLimits {
    /// Returns the limit of a class, with the workspace's overrides applied.
    pub fn limit_for(&self, class: RateLimitClass, overrides: &RateLimits) -> u32 {
        match class {
            RateLimitClass::Create | RateLimitClass::SilentAuthorization => overrides.create.unwrap_or(self.create),
            RateLimitClass::Read => overrides.read.unwrap_or(self.read),
            RateLimitClass::Eligibility => overrides.eligibility.unwrap_or(self.eligibility),
            RateLimitClass::Management => overrides.management.unwrap_or(self.management),
            RateLimitClass::Token => overrides.token.unwrap_or(self.token),
            RateLimitClass::Device | RateLimitClass::DeviceReplay => self.device,
            RateLimitClass::Console => self.console,
            RateLimitClass::ConsolePage => self.console_per_workspace,
        }
    }

    /// Returns the token limit of a whole workspace. It is never below the limit of one client.
    pub(super) fn workspace_token_limit(&self, overrides: &RateLimits) -> u32 {
        self.token_per_workspace.max(self.limit_for(RateLimitClass::Token, overrides))
    }
}
