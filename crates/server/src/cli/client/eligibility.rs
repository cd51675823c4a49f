//! `ringtrue eligibility number` and `ip`: the products that can verify a user.

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};

use super::{api_session::ApiSession, arguments::ProfileOption};
use crate::cli::{arguments::Output, context::CommandContext, error::CliError, stdin_argument::argument_or_stdin};

const SCOPE: Scope = Scope::Product(Product::Eligibility);
const COLUMNS: [&str; 6] =
    ["network_id", "network_name", "network_aliases", "country_code", "dialing_code", "products"];

pub(in crate::cli) async fn eligibility_of_number(
    context: &CommandContext,
    profile_option: &ProfileOption,
    number: &str,
) -> Result<(), CliError> {
    let number = argument_or_stdin(number)?;
    print_eligibility(context, &ApiSession::open(context, profile_option)?, "phone-numbers", &number).await
}

pub(in crate::cli) async fn eligibility_of_ip(
    context: &CommandContext,
    profile_option: &ProfileOption,
    address: &str,
) -> Result<(), CliError> {
    print_eligibility(context, &ApiSession::open(context, profile_option)?, "device-ips", address).await
}

async fn print_eligibility(
    context: &CommandContext,
    session: &ApiSession,
    kind: &str,
    subject: &str,
) -> Result<(), CliError> {
    let response = session.get(SCOPE, &["v1", "eligibility", kind, subject], &[]).await?;
    if context.printer.output == Output::Json {
        return Ok(context.printer.print_object(&COLUMNS, &response)?);
    }
    Ok(context.printer.print_object(&COLUMNS, &flatten(&response))?)
}

/// Merges the network fields and the product ids into one object.
fn flatten(response: &Value) -> Value {
    let mut flat = response.get("network").cloned().unwrap_or_default();
    let products = response.get("products").and_then(Value::as_array).into_iter().flatten();
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
    fn network_and_products_are_merged() {
        let response =
            json!({"network": {"network_id": "23410"}, "products": [{"product_id": "sim_swap", "product_name": "S"}]});
        assert_eq!(flatten(&response), json!({"network_id": "23410", "products": ["sim_swap"]}));
    }
}
