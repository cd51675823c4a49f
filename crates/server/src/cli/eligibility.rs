//! `ringtrue eligibility`: explains which products can verify a user.

use std::sync::Arc;

use ringtrue_client::printer::{self, Output, Record};
use ringtrue_domain::{
    eligibility::{EligibilityGate, verification_methods},
    product::Product,
    tenancy::{Project, ProjectId},
    verification::Method,
};
use ringtrue_engine::{
    Engine,
    lookups::{
        eligibility::{EligibilityExplanation, EligibilitySubject},
        networks::NetworkInfo,
        number_lookup::SourceResult,
    },
    tenants::ManagementError,
};
use serde_json::{Value, json};

use super::{
    arguments::{EligibilityAction, ExplainArguments},
    context::CommandContext,
    error::CliError,
};
use crate::wiring;

const SOURCE_COLUMNS: [&str; 2] = ["source", "said"];
const PRODUCT_COLUMNS: [&str; 4] = ["product", "eligible", "gate", "why"];
const CONNECTORS_NOTE: &str = "as configured; only a running server knows their link state";
const EXPECTED_INPUT_HINT: &str = "Use a number in E.164 format, such as +447700900123, or an IP address, such as 203.0.113.10 or \
                        2001:db8::1.";

pub(super) async fn run(context: &CommandContext, action: EligibilityAction) -> Result<(), CliError> {
    match action {
        EligibilityAction::Client(action) => {
            Ok(ringtrue_client::eligibility(&context.client_context()?, action).await?)
        }
        EligibilityAction::Explain(arguments) => explain(context, arguments).await,
    }
}

async fn explain(
    context: &CommandContext,
    ExplainArguments { user, project }: ExplainArguments,
) -> Result<(), CliError> {
    let input = user.read()?;
    let config = context.config()?;
    context
        .with_engine_of(&config, async |engine| {
            wiring::apply_config_without_starting(engine, &config)?;
            let project = project.map(|id| find_project(engine, id)).transpose()?;
            // Errors must not echo the input: it is personal data.
            let user = EligibilitySubject::parse(&input, project.as_deref());
            let user = user.map_err(|error| CliError::usage(error.to_string(), EXPECTED_INPUT_HINT))?;
            let explanation = engine.checks.explain_eligibility(project.as_deref(), &user).await;
            print_explanation(context, &user, project.as_deref(), explanation)
        })
        .await
}

fn find_project(engine: &Engine, id: ProjectId) -> Result<Arc<Project>, CliError> {
    engine.control_plane().project(id).ok_or_else(|| ManagementError::ProjectNotFound.into())
}

fn print_explanation(
    context: &CommandContext,
    user: &EligibilitySubject,
    project: Option<&Project>,
    explanation: EligibilityExplanation,
) -> Result<(), CliError> {
    let EligibilityExplanation { source_results, network, note, gates } = explanation;
    let methods: Vec<_> = verification_methods(project, &gates).iter().map(Method::into_str).collect();
    let sources: Vec<Record> = source_results.iter().map(source_record).collect();
    let products: Vec<Record> =
        gates.into_iter().map(|(product, gate)| product_record(product, gate, project)).collect();
    let mut record = vec![
        ("user", json!(user.masked())),
        ("project_id", json!(project.map(|project| project.id.to_string()))),
        ("mode", json!(project.map(|project| project.mode.into_str()))),
        ("network_id", json!(network.as_ref().ok().map(|network| network.id.to_string()))),
        ("network", json!(render_network(&network))),
        ("note", json!(note)),
        ("connectors", json!(CONNECTORS_NOTE)),
        ("verification_methods", json!(methods)),
    ];
    if context.printer.output != Output::Table {
        let object = |record: Record| record.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let all = |records: Vec<Record>| records.into_iter().map(object).map(Value::Object).collect::<Value>();
        record.extend([("sources", all(sources)), ("products", all(products))]);
        return Ok(context.printer.print_record(record)?);
    }
    context.printer.print_record(record)?;
    for (columns, records) in [(&SOURCE_COLUMNS[..], sources), (&PRODUCT_COLUMNS[..], products)] {
        if !records.is_empty() {
            printer::print_text("\n")?;
            context.printer.print_list(columns, records)?;
        }
    }
    Ok(())
}

fn render_network(network: &Result<Arc<NetworkInfo>, String>) -> String {
    match network {
        Ok(network) => format!("{} ({})", network.name, network.country),
        Err(error) => format!("none: {error}"),
    }
}

fn source_record(result: &SourceResult) -> Record {
    SOURCE_COLUMNS.into_iter().zip([json!(result.source), json!(result.describe())]).collect()
}

fn product_record(product: Product, gate: Result<(), EligibilityGate>, project: Option<&Project>) -> Record {
    let why = gate.err().map(|gate| EligibilityExplanation::describe_gate(gate, product, project));
    let values =
        [json!(product.into_str()), json!(gate.is_ok()), json!(gate.err().map(|gate| gate.into_str())), json!(why)];
    PRODUCT_COLUMNS.into_iter().zip(values).collect()
}
