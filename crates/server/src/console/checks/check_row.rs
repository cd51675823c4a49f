//! Row of a list of checks.

use ringtrue_domain::lifecycle::{AnyCheck, Reference};

use super::{masked_number, result_label, status_class};
use crate::console::page::UtcTime;

#[derive(Debug)]
pub struct CheckRow {
    pub path: String,
    pub id: String,
    pub status: &'static str,
    pub css_class: &'static str,
    pub result: String,
    pub product: &'static str,
    pub number: String,
    pub reference: String,
    pub network: String,
    pub created_at: UtcTime,
    pub changed_at: UtcTime,
}

impl CheckRow {
    pub fn new(project_path: &str, check: &AnyCheck) -> Self {
        CheckRow {
            path: format!("{project_path}/checks/{}/{}", check.product, check.id),
            id: check.id.to_string(),
            status: check.status().as_str(),
            css_class: status_class(check),
            result: result_label(check),
            product: check.product.title(),
            number: masked_number(check),
            reference: check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned(),
            network: check.network.as_ref().map(ToString::to_string).unwrap_or_default(),
            created_at: UtcTime(check.created_at),
            changed_at: UtcTime(check.updated_at().unwrap_or(check.created_at)),
        }
    }
}
