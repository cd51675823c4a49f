//! `ringtrue eligibility`: why a user can use what.

use std::sync::Arc;

use ringtrue_domain::{
    eligibility::Gate,
    product::Product,
    tenancy::{Project, ProjectId},
};
use ringtrue_engine::{
    Engine,
    eligibility::{Explanation, User, UserNetwork},
    management::ManagementError,
    number_lookup::Asked,
};
use serde_json::{Value, json};

use super::{
    arguments::{EligibilityAction, ExplainArguments, Output},
    caller,
    desk::Desk,
    failure::Failure,
    printer::{self, Record},
    typed::typed,
};
use crate::wiring;

const SOURCE_COLUMNS: [&str; 2] = ["source", "said"];
const PRODUCT_COLUMNS: [&str; 4] = ["product", "eligible", "gate", "why"];
/// No link is opened to find out more.
const AS_CONFIGURED: &str = "as configured; whether links are up, only a running server knows";
const EXPECTED: &str = "Write a number with its country code and nothing else, such as +447700900123, or an address, such \
                        as 203.0.113.10 or 2001:db8::1.";

pub(super) async fn run(desk: &Desk, action: EligibilityAction) -> Result<(), Failure> {
    match action {
        EligibilityAction::Number { number, identity } => caller::of_number(desk, &identity, &number.0).await,
        EligibilityAction::Ip { ip, identity } => caller::of_address(desk, &identity, &ip).await,
        EligibilityAction::Explain(arguments) => explain(desk, arguments).await,
    }
}

async fn explain(desk: &Desk, ExplainArguments { user, project }: ExplainArguments) -> Result<(), Failure> {
    let typed = typed(&user)?;
    let config = desk.config()?;
    desk.with_engine_of(&config, async |engine| {
        wiring::rehearse(engine, &config)?;
        let project = project.map(|id| project_of(engine, id)).transpose()?;
        // What was typed is not repeated: it is about a person.
        let user = User::parse(&typed, project.as_deref());
        let user = user.map_err(|problem| Failure::refused(problem.to_string(), EXPECTED))?;
        let explanation = engine.explain(project.as_deref(), &user).await;
        print(desk, &user, project.as_deref(), explanation)
    })
    .await
}

fn project_of(engine: &Engine, id: ProjectId) -> Result<Arc<Project>, Failure> {
    engine.control_plane().project(id).ok_or_else(|| ManagementError::ProjectNotFound.into())
}

fn print(desk: &Desk, user: &User, project: Option<&Project>, explanation: Explanation) -> Result<(), Failure> {
    let Explanation { asked, network, note, gates } = explanation;
    let sources: Vec<Record> = asked.iter().map(source).collect();
    let products: Vec<Record> = gates.into_iter().map(|(product, gate)| fate(product, gate, project)).collect();
    let mut record = vec![
        ("user", json!(user.shown())),
        ("project_id", json!(project.map(|project| project.id.to_string()))),
        ("mode", json!(project.map(|project| project.mode.as_str()))),
        ("network_id", json!(network.as_ref().ok().map(|network| network.id.to_string()))),
        ("network", json!(network_shown(&network))),
        ("note", json!(note)),
        ("connectors", json!(AS_CONFIGURED)),
    ];
    if desk.printer.output != Output::Table {
        let object = |record: Record| record.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let all = |records: Vec<Record>| records.into_iter().map(object).map(Value::Object).collect::<Value>();
        record.extend([("sources", all(sources)), ("products", all(products))]);
        return Ok(desk.printer.record(record)?);
    }
    desk.printer.record(record)?;
    for (columns, records) in [(&SOURCE_COLUMNS[..], sources), (&PRODUCT_COLUMNS[..], products)] {
        if !records.is_empty() {
            printer::text("\n")?;
            desk.printer.list(columns, records)?;
        }
    }
    Ok(())
}

fn network_shown(network: &Result<Arc<UserNetwork>, String>) -> String {
    match network {
        Ok(network) => format!("{} ({})", network.name, network.country),
        Err(problem) => format!("none: {problem}"),
    }
}

fn source(asked: &Asked) -> Record {
    SOURCE_COLUMNS.into_iter().zip([json!(asked.source), json!(asked.in_words())]).collect()
}

fn fate(product: Product, gate: Result<(), Gate>, project: Option<&Project>) -> Record {
    let why = gate.err().map(|gate| Explanation::why(gate, product, project));
    let values = [json!(product.as_str()), json!(gate.is_ok()), json!(gate.err().map(Gate::as_str)), json!(why)];
    PRODUCT_COLUMNS.into_iter().zip(values).collect()
}
