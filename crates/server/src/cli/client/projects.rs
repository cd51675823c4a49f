//! `ringtrue projects`.

use ringtrue_domain::product::Scope;
use serde_json::{Value, json};

use super::{
    api_session::ApiSession,
    arguments::{NewProject, ProjectMode, ProjectsAction, WithProfile},
    list::print_list,
    profile::{ClientCredential, ProfileName, ProfileStore, Secret},
    token_cache::TokenCache,
};
use crate::cli::{context::CommandContext, credentials::SECRET_SHOWN_ONCE, error::CliError, printer};

const COLUMNS: [&str; 7] = ["project_id", "name", "mode", "disabled", "products", "created_at", "updated_at"];

pub(super) async fn run(context: &CommandContext, command: WithProfile<ProjectsAction>) -> Result<(), CliError> {
    let session = ApiSession::open(context, &command.profile_option)?;
    let workspace = session.workspace_id()?.to_owned();
    let projects = ["v1", "management", "workspaces", &workspace, "projects"];
    match command.action {
        ProjectsAction::List(arguments) => {
            print_list(context, &session, Scope::Management, &projects, &COLUMNS, &arguments).await
        }
        ProjectsAction::Get { project } => {
            let project = project.to_string();
            let path = [projects.as_slice(), &[&project]].concat();
            let project = session.get(Scope::Management, &path, &[]).await?;
            let columns = [COLUMNS.as_slice(), &["configuration"]].concat();
            Ok(context.printer.print_object(&columns, &project)?)
        }
        ProjectsAction::Create(new) => {
            let mut created = session.post(Scope::Management, &projects, &create_body(&new)).await?;
            if new.r#use {
                let name = ProfileName::resolve(context, &command.profile_option)?;
                save_credential(context, &name, &session, &mut created)?;
            }
            print_created(context, created)
        }
    }
}

fn create_body(new: &NewProject) -> Value {
    let mut body = json!({
        "name": new.name,
        "mode": match new.mode {
            ProjectMode::Sandbox => "sandbox",
            ProjectMode::Live => "live",
        },
    });
    if let Some(products) = &new.products {
        body["products"] = json!(products);
    }
    for product in ["reverse_sms", "secure_sna", "discovery"] {
        if let Some(url) = &new.callback_url {
            body["configuration"][product]["callback_url"] = json!(url);
        }
        if let Some(url) = new.redirect_url.as_ref().filter(|_| product != "reverse_sms") {
            body["configuration"][product]["redirect_url"] = json!(url);
        }
    }
    body
}

/// Saves the first credential of a new project in the profile, and removes its secret from the output.
fn save_credential(
    context: &CommandContext,
    name: &ProfileName,
    session: &ApiSession,
    created: &mut Value,
) -> Result<(), CliError> {
    let Some(credential) = created.pointer_mut("/credentials/0").and_then(Value::as_object_mut) else { return Ok(()) };
    let secret = credential.remove("client_secret");
    let id = credential.get("client_id").and_then(Value::as_str);
    if let (Some(id), Some(Value::String(secret))) = (id, secret) {
        let project = ClientCredential { client_id: id.to_owned(), client_secret: Secret::new(secret) };
        let mut profile = session.profile.clone();
        profile.project = Some(project);
        TokenCache::delete(context, name)?;
        ProfileStore::open(context)?.save(name, &profile)?;
        printer::print_note(&format!("The profile `{name}` now uses this project."));
    }
    Ok(())
}

fn print_created(context: &CommandContext, mut created: Value) -> Result<(), CliError> {
    let credential = created.pointer("/credentials/0").cloned().unwrap_or_default();
    let secret_is_shown = credential.get("client_secret").is_some();
    // JSON keeps the structure of the API; tables and CSV have columns for the credential.
    if let Some(members) = created.as_object_mut()
        && context.printer.output != crate::cli::arguments::Output::Json
    {
        for name in ["client_id", "client_secret"] {
            members.insert(name.to_owned(), credential.get(name).cloned().unwrap_or_default());
        }
    }
    context.printer.print_object(&[COLUMNS.as_slice(), &["client_id", "client_secret"]].concat(), &created)?;
    if secret_is_shown {
        printer::print_note(SECRET_SHOWN_ONCE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_set_for_each_product() {
        let new = NewProject {
            name: "Shop".to_owned(),
            mode: ProjectMode::Live,
            products: Some(vec!["discovery".to_owned()]),
            callback_url: Some("https://a.example".to_owned()),
            redirect_url: Some("https://b.example".to_owned()),
            r#use: false,
        };
        let both = json!({"callback_url": "https://a.example", "redirect_url": "https://b.example"});
        let expected = json!({
            "name": "Shop", "mode": "live", "products": ["discovery"],
            "configuration": {
                "reverse_sms": {"callback_url": "https://a.example"}, "secure_sna": both, "discovery": both,
            },
        });
        assert_eq!(create_body(&new), expected);
    }
}
