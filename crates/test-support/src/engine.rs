//! Settings for an engine under test.

use jiff::SignedDuration;
use ringtrue_domain::{
    region::Region,
    reverse_sms::NumberLimit,
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::{
    EngineSettings, RetentionSettings, accounts::PasswordCosts, courier::CourierLimits, rate_limits::DefaultRateLimits,
    tenants::TenantLimits,
};

/// Returns settings with default limits, except for the limit of checks per number, which is higher than tests reach.
pub fn engine_settings() -> EngineSettings {
    EngineSettings {
        region: Region::Eu,
        base_url: "https://ringtrue.example".to_owned(),
        rate_limits: DefaultRateLimits::default(),
        url_policy: UrlPolicy { allow_http: false, addresses: AddressPolicy::default() },
        tenant_limits: TenantLimits::default(),
        number_limit: NumberLimit { max_checks: 1_000, window_seconds: 600 },
        courier: CourierLimits::default(),
        retention: RetentionSettings {
            checks: Some(SignedDuration::from_hours(24 * 400)),
            numbers: SignedDuration::from_hours(24 * 30),
            discovered_numbers: SignedDuration::from_hours(24),
            audit_events: SignedDuration::from_hours(24 * 365),
            request_log: None,
        },
        number_lookup_cache_capacity: 100,
        max_members: 500,
        require_second_factor: false,
        password_costs: PasswordCosts::default(),
        camara_enabled: true,
    }
}
