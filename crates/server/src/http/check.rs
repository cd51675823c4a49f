//! JSON representation of checks, common to all products.

use ringtrue_domain::lifecycle::{Check, ErrorCode, Verdict};
use serde::Serialize;

use super::time;

#[derive(Serialize)]
pub struct CheckBody {
    check_id: String,
    status: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    /// Number found by Discovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phone_number: Option<String>,
    /// Set by products that query the operator about the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<String>,
    /// Also set for expired silent checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'static str>,
}

impl<V: Verdict + Clone> From<&Check<V>> for CheckBody {
    /// Sets the fields common to all products.
    fn from(check: &Check<V>) -> Self {
        CheckBody {
            check_id: check.id.to_string(),
            status: check.status().as_str(),
            matched: check.verdict().and_then(Verdict::matched),
            phone_number: None,
            network_id: None,
            created_at: time::format(check.created_at),
            updated_at: check.updated_at().map(time::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: check.error_code().map(ErrorCode::as_str),
        }
    }
}
