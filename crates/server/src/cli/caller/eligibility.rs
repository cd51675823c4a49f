//! `ringtrue eligibility number` and `ip`: what a user can be verified by.

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};

use super::{arguments::Identity, session::Session};
use crate::cli::{arguments::Output, desk::Desk, failure::Failure, typed::typed};

const SCOPE: Scope = Scope::Product(Product::Eligibility);
const COLUMNS: [&str; 6] =
    ["network_id", "network_name", "network_aliases", "country_code", "dialing_code", "products"];

pub(in crate::cli) async fn of_number(desk: &Desk, identity: &Identity, number: &str) -> Result<(), Failure> {
    let number = typed(number)?;
    show(desk, &Session::open(desk, identity)?, "phone-numbers", &number).await
}

pub(in crate::cli) async fn of_address(desk: &Desk, identity: &Identity, address: &str) -> Result<(), Failure> {
    show(desk, &Session::open(desk, identity)?, "device-ips", address).await
}

async fn show(desk: &Desk, session: &Session, kind: &str, subject: &str) -> Result<(), Failure> {
    let found = session.get(SCOPE, &["v1", "eligibility", kind, subject], &[]).await?;
    if desk.printer.output == Output::Json {
        return Ok(desk.printer.object(&COLUMNS, &found)?);
    }
    Ok(desk.printer.object(&COLUMNS, &flat(&found))?)
}

/// The network and the names of the products, side by side.
fn flat(found: &Value) -> Value {
    let mut flat = found.get("network").cloned().unwrap_or_default();
    let products = found.get("products").and_then(Value::as_array).into_iter().flatten();
    let products: Vec<&Value> = products.filter_map(|product| product.get("product_id")).collect();
    if let Some(members) = flat.as_object_mut() {
        members.insert("products".to_owned(), json!(products));
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_and_its_products_stand_side_by_side() {
        let found =
            json!({"network": {"network_id": "23410"}, "products": [{"product_id": "sim_swap", "product_name": "S"}]});
        assert_eq!(flat(&found), json!({"network_id": "23410", "products": ["sim_swap"]}));
    }
}
