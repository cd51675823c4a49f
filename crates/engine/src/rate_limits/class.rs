//! Classes of requests, and the limit of each.

use ringtrue_domain::tenancy::RateLimits;

/// Classes of requests, each with its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateLimitClass {
    /// Creating a check, or submitting a code.
    Create,
    /// Reading checks.
    Read,
    Eligibility,
    Management,
    /// Token and revoke requests.
    Token,
    /// Visits of a check's device URL: counted by check with the right token, else by address.
    Device,
    /// Redirects back with a `state` that was used before, by address.
    DeviceReplay,
    /// Console requests without a session or link known to be valid, by address.
    Console,
    /// Console pages of a workspace.
    ConsolePage,
}

impl RateLimitClass {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            RateLimitClass::Create => "create",
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

/// The deployment's limits, in requests per second, except `device_visits` and `failed_logins`. A workspace can override some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRateLimits {
    pub create: u32,
    pub read: u32,
    pub eligibility: u32,
    pub management: u32,
    /// Per client.
    pub token: u32,
    /// Token and revoke requests of all clients of a workspace.
    pub token_per_workspace: u32,
    /// Visits of device URLs with a wrong token, and redirects back with a used `state`, per address.
    pub device: u32,
    /// Visits of a device URL with a valid token, per check over its lifetime.
    pub device_visits: u32,
    /// Per address.
    pub console: u32,
    /// Console requests of a session, per node.
    pub console_per_session: u32,
    /// Console pages of a workspace, of all its members.
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
    /// The limit of a class, taking the workspace's overrides into account.
    pub fn limit_for(&self, class: RateLimitClass, overrides: &RateLimits) -> u32 {
        match class {
            RateLimitClass::Create => overrides.create.unwrap_or(self.create),
            RateLimitClass::Read => overrides.read.unwrap_or(self.read),
            RateLimitClass::Eligibility => overrides.eligibility.unwrap_or(self.eligibility),
            RateLimitClass::Management => overrides.management.unwrap_or(self.management),
            RateLimitClass::Token => overrides.token.unwrap_or(self.token),
            RateLimitClass::Device | RateLimitClass::DeviceReplay => self.device,
            RateLimitClass::Console => self.console,
            RateLimitClass::ConsolePage => self.console_per_workspace,
        }
    }

    /// The token limit of a workspace, never below the limit of one client.
    pub(super) fn workspace_token_limit(&self, overrides: &RateLimits) -> u32 {
        self.token_per_workspace.max(self.limit_for(RateLimitClass::Token, overrides))
    }
}
