//! The commands `ringtrue projects` and `ringtrue credentials`, which use the Management API.

use ringtrue_domain::{
    product::{Product, Scope},
    tenancy::ClientId,
    timestamp,
};
use serde_json::{Value, json};

use crate::{
    api::{ApiSession, MAX_PAGE_SIZE, text_field},
    argument_values::ProfileName,
    arguments::{
        CredentialOwnerArguments, CredentialsAction, NewCredential, NewProject, ProfileOption, ProjectMode,
        ProjectsAction, WithProfile,
    },
    context::ClientContext,
    error::CommandError,
    printer::{self, Output},
    profile::{ClientCredential, ProfileStore, ProjectCredential, Secret, TokenCache, resolve_profile},
};

pub const SECRET_SHOWN_ONCE: &str = "Save the secret now: it is not stored and not shown again.";
const PROJECT_COLUMNS: [&str; 7] = ["project_id", "name", "mode", "disabled", "products", "created_at", "updated_at"];
const CREDENTIAL_COLUMNS: [&str; 4] = ["client_id", "scopes", "created_at", "expires_at"];

pub(crate) async fn projects(
    context: &ClientContext,
    command: WithProfile<ProjectsAction>,
) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &command.profile_option)?;
    let projects = ["v1", "management", "workspaces", session.workspace_id()?, "projects"];
    match command.action {
        ProjectsAction::List(arguments) => {
            session.print_list(Scope::Management, &projects, &PROJECT_COLUMNS, &arguments).await
        }
        ProjectsAction::Get { project } => {
            let id = project.to_string();
            let path = [projects.as_slice(), &[&id]].concat();
            let project = session.get(Scope::Management, &path, &[]).await?;
            Ok(context.printer.print_object(&[PROJECT_COLUMNS.as_slice(), &["configuration"]].concat(), &project)?)
        }
        ProjectsAction::Create(new) => {
            let mut created = session.post(Scope::Management, &projects, Some(&new_project_body(&new)), None).await?;
            if new.r#use {
                let name = resolve_profile(context, &command.profile_option)?;
                save_credential(context, &name, &session, &mut created)?;
            }
            print_created_project(context, created)
        }
    }
}

/// Returns the ids and names of the newest projects in the profile's workspace, for shell completion.
pub async fn list_projects(
    context: &ClientContext,
    profile: Option<&ProfileName>,
) -> Result<Vec<(String, String)>, CommandError> {
    let session = ApiSession::open(context, &ProfileOption { profile: profile.cloned() })?;
    let path = ["v1", "management", "workspaces", session.workspace_id()?, "projects"];
    let page = session.fetch_page(Scope::Management, &path, None, MAX_PAGE_SIZE, 1).await?;
    let id_and_name = |project: &Value| {
        Some((text_field(project, "project_id")?.to_owned(), text_field(project, "name")?.to_owned()))
    };
    Ok(page.content.iter().filter_map(id_and_name).collect())
}

fn new_project_body(new: &NewProject) -> Value {
    let mode = match new.mode {
        ProjectMode::Sandbox => "sandbox",
        ProjectMode::Live => "live",
    };
    let mut body = json!({"name": new.name, "mode": mode});
    if let Some(products) = &new.products {
        body["products"] = products.iter().map(Product::into_str).collect();
    }
    for product in Product::WITH_CALLBACKS {
        let name = product.into_str();
        if let Some(url) = &new.callback_url {
            body["configuration"][name]["callback_url"] = json!(url);
        }
        if let Some(url) = new.redirect_url.as_ref().filter(|_| product.facts().has_redirect_url) {
            body["configuration"][name]["redirect_url"] = json!(url);
        }
    }
    body
}

/// Saves the first credential of a new project in the profile, and removes its secret from the output.
fn save_credential(
    context: &ClientContext,
    name: &ProfileName,
    session: &ApiSession,
    created: &mut Value,
) -> Result<(), CommandError> {
    let project_id = text_field(created, "project_id").map(str::to_owned);
    let Some(credential) = created.pointer_mut("/credentials/0").and_then(Value::as_object_mut) else { return Ok(()) };
    let secret = credential.remove("client_secret");
    let id = credential.get("client_id").and_then(Value::as_str);
    if let (Some(id), Some(Value::String(secret))) = (id, secret) {
        let mut profile = session.profile.clone();
        let credential = ClientCredential { client_id: id.to_owned(), client_secret: Secret::new(secret) };
        profile.project = Some(ProjectCredential { project_id, credential });
        TokenCache::delete(context, name)?;
        ProfileStore::open(context)?.save(name, &profile)?;
        printer::print_note(&format!("The profile `{name}` now uses this project."));
    }
    Ok(())
}

fn print_created_project(context: &ClientContext, mut created: Value) -> Result<(), CommandError> {
    let credential = created.pointer("/credentials/0").cloned().unwrap_or_default();
    // JSON output keeps the structure of the API. Tables and CSV get columns for the credential.
    if let Some(members) = created.as_object_mut().filter(|_| context.printer.output != Output::Json) {
        for name in ["client_id", "client_secret"] {
            members.insert(name.to_owned(), credential.get(name).cloned().unwrap_or_default());
        }
    }
    context.printer.print_object(&[PROJECT_COLUMNS.as_slice(), &["client_id", "client_secret"]].concat(), &created)?;
    if credential.get("client_secret").is_some() {
        printer::print_note(SECRET_SHOWN_ONCE);
    }
    Ok(())
}

/// Lists, shows, creates and deletes the credentials of a workspace, or of one of its projects. `path` has the segments
/// of their list's path in the Management API.
#[derive(Debug)]
pub struct CredentialsApi {
    session: ApiSession,
    path: Vec<String>,
}

impl CredentialsApi {
    pub fn open(context: &ClientContext, owner: &CredentialOwnerArguments) -> Result<Self, CommandError> {
        let session = ApiSession::open(context, &owner.profile_option)?;
        let mut path = ["v1", "management", "workspaces", session.workspace_id()?].map(str::to_owned).to_vec();
        if let Some(project) = owner.project {
            path.extend(["projects".to_owned(), project.to_string()]);
        }
        path.push("credentials".to_owned());
        Ok(CredentialsApi { session, path })
    }

    pub async fn run(&self, action: CredentialsAction) -> Result<(), CommandError> {
        let session = &self.session;
        match action {
            CredentialsAction::List(arguments) => {
                session.print_list(Scope::Management, &self.path(None), &CREDENTIAL_COLUMNS, &arguments).await
            }
            CredentialsAction::Get { client_id } => {
                let credential = session.get(Scope::Management, &self.path(Some(&client_id)), &[]).await?;
                Ok(session.printer.print_object(&CREDENTIAL_COLUMNS, &credential)?)
            }
            CredentialsAction::Delete { client_id } => {
                session.delete(Scope::Management, &self.path(Some(&client_id))).await?;
                printer::print_note("Credential deleted, tokens revoked.");
                Ok(())
            }
        }
    }

    pub async fn create(&self, new: &NewCredential) -> Result<(), CommandError> {
        let mut body = json!({});
        if !new.scopes.is_empty() {
            body["scopes"] = new.scopes.iter().map(|scope| scope.into_str()).collect();
        }
        if let Some(at) = new.expires_at {
            body["expires_at"] = json!(timestamp::format(at));
        }
        let created = self.session.post(Scope::Management, &self.path(None), Some(&body), None).await?;
        let columns = ["client_id", "client_secret", "scopes", "created_at", "expires_at"];
        self.session.printer.print_object(&columns, &created)?;
        printer::print_note(SECRET_SHOWN_ONCE);
        Ok(())
    }

    /// Returns the path of the list of credentials, or of one credential.
    fn path<'a>(&'a self, client: Option<&'a ClientId>) -> Vec<&'a str> {
        self.path.iter().map(String::as_str).chain(client.map(ClientId::as_str)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_set_for_each_product() {
        let new = NewProject {
            name: "Shop".to_owned(),
            mode: ProjectMode::Live,
            products: Some(vec![Product::Discovery]),
            callback_url: Some("https://a.example".to_owned()),
            redirect_url: Some("https://b.example".to_owned()),
            r#use: false,
        };
        let both = json!({"callback_url": "https://a.example", "redirect_url": "https://b.example"});
        let expected = json!({
            "name": "Shop", "mode": "live", "products": ["discovery"],
            "configuration": {
                "reverse_sms": {"callback_url": "https://a.example"}, "secure_sna": both, "discovery": both,
                "verification": both,
            },
        });
        assert_eq!(new_project_body(&new), expected);
    }
}
