//! A check in a line, wherever checks are listed.

use ringtrue_domain::lifecycle::{AnyCheck, Reference};

use super::{number_of, result_of, tone};
use crate::console::page::Moment;

#[derive(Debug)]
pub struct CheckRow {
    pub path: String,
    pub id: String,
    pub status: &'static str,
    pub tone: &'static str,
    pub result: String,
    pub product: &'static str,
    pub number: String,
    pub reference: String,
    pub network: String,
    pub created_at: Moment,
    pub changed_at: Moment,
}

impl CheckRow {
    pub fn of(project_path: &str, check: &AnyCheck) -> Self {
        CheckRow {
            path: format!("{project_path}/checks/{}/{}", check.product, check.id),
            id: check.id.to_string(),
            status: check.status().as_str(),
            tone: tone(check),
            result: result_of(check),
            product: check.product.title(),
            number: number_of(check),
            reference: check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned(),
            network: check.network.as_ref().map(ToString::to_string).unwrap_or_default(),
            created_at: Moment(check.created_at),
            changed_at: Moment(check.updated_at().unwrap_or(check.created_at)),
        }
    }
}
