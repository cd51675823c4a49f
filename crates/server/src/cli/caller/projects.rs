//! `ringtrue projects`.

use ringtrue_domain::product::Scope;
use serde_json::{Value, json};

use super::{
    arguments::{Group, NewProject, ProjectMode, ProjectsAction},
    list::list,
    profile::{Access, ProfileName, Profiles, Secret},
    session::Session,
    tokens::Tokens,
};
use crate::cli::{credentials::SHOWN_ONCE, desk::Desk, failure::Failure, printer};

const COLUMNS: [&str; 7] = ["project_id", "name", "mode", "disabled", "products", "created_at", "updated_at"];

pub(super) async fn run(desk: &Desk, group: Group<ProjectsAction>) -> Result<(), Failure> {
    let session = Session::open(desk, &group.identity)?;
    let workspace = session.workspace()?.to_owned();
    let projects = ["v1", "management", "workspaces", &workspace, "projects"];
    match group.action {
        ProjectsAction::List(arguments) => {
            list(desk, &session, Scope::Management, &projects, &COLUMNS, &arguments).await
        }
        ProjectsAction::Get { project } => {
            let project = project.to_string();
            let path = [projects.as_slice(), &[&project]].concat();
            let project = session.get(Scope::Management, &path, &[]).await?;
            let columns = [COLUMNS.as_slice(), &["configuration"]].concat();
            Ok(desk.printer.object(&columns, &project)?)
        }
        ProjectsAction::Create(new) => {
            let mut created = session.post(Scope::Management, &projects, &body(&new)).await?;
            if new.r#use {
                let name = ProfileName::of(desk, &group.identity)?;
                use_credential(desk, &name, &session, &mut created)?;
            }
            show_new(desk, created)
        }
    }
}

fn body(new: &NewProject) -> Value {
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

/// Puts the first credential of a new project into the profile, and its secret nowhere else.
fn use_credential(desk: &Desk, name: &ProfileName, session: &Session, created: &mut Value) -> Result<(), Failure> {
    let Some(credential) = created.pointer_mut("/credentials/0").and_then(Value::as_object_mut) else { return Ok(()) };
    let secret = credential.remove("client_secret");
    let id = credential.get("client_id").and_then(Value::as_str);
    if let (Some(id), Some(Value::String(secret))) = (id, secret) {
        let access = Access { client_id: id.to_owned(), client_secret: Secret::new(secret) };
        let mut profile = session.profile.clone();
        profile.project = Some(access);
        Tokens::forget_all(desk, name)?;
        Profiles::open(desk)?.keep(name, &profile)?;
        printer::remark(&format!("The profile `{name}` uses this project from now on."));
    }
    Ok(())
}

fn show_new(desk: &Desk, mut created: Value) -> Result<(), Failure> {
    let credential = created.pointer("/credentials/0").cloned().unwrap_or_default();
    let secret_is_shown = credential.get("client_secret").is_some();
    // Programs find it where the API has it, people and spreadsheets beside the rest.
    if let Some(members) = created.as_object_mut()
        && desk.printer.output != crate::cli::arguments::Output::Json
    {
        for name in ["client_id", "client_secret"] {
            members.insert(name.to_owned(), credential.get(name).cloned().unwrap_or_default());
        }
    }
    desk.printer.object(&[COLUMNS.as_slice(), &["client_id", "client_secret"]].concat(), &created)?;
    if secret_is_shown {
        printer::remark(SHOWN_ONCE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_go_where_they_belong() {
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
        assert_eq!(body(&new), expected);
    }
}
