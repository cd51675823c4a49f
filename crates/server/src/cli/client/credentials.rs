//! `ringtrue credentials` through the Management API, for a workspace or one of its projects.

use jiff::Timestamp;
use ringtrue_domain::{
    product::Scope,
    tenancy::{ClientId, ProjectId},
};
use serde_json::{Map, Value, json};

use super::{
    api_session::ApiSession,
    arguments::{ListArguments, ProfileOption},
    list::print_list,
};
use crate::{
    cli::{
        context::CommandContext,
        credentials::SECRET_SHOWN_ONCE,
        error::CliError,
        printer::{self},
    },
    http::time,
};

const COLUMNS: [&str; 4] = ["client_id", "scopes", "created_at", "expires_at"];

pub(in crate::cli) struct CredentialsApi {
    session: ApiSession,
    path: Vec<String>,
}

impl CredentialsApi {
    pub(in crate::cli) fn open(
        context: &CommandContext,
        profile_option: &ProfileOption,
        project: Option<ProjectId>,
    ) -> Result<Self, CliError> {
        let session = ApiSession::open(context, profile_option)?;
        let workspace = session.workspace_id()?.to_owned();
        let mut path = ["v1", "management", "workspaces", &workspace].map(str::to_owned).to_vec();
        if let Some(project) = project {
            path.extend(["projects".to_owned(), project.to_string()]);
        }
        path.push("credentials".to_owned());
        Ok(CredentialsApi { session, path })
    }

    pub(in crate::cli) async fn list(
        &self,
        context: &CommandContext,
        arguments: &ListArguments,
    ) -> Result<(), CliError> {
        print_list(context, &self.session, Scope::Management, &self.collection_path(), &COLUMNS, arguments).await
    }

    pub(in crate::cli) async fn get(&self, context: &CommandContext, client: &ClientId) -> Result<(), CliError> {
        let credential = self.session.get(Scope::Management, &self.credential_path(client), &[]).await?;
        Ok(context.printer.print_object(&COLUMNS, &credential)?)
    }

    pub(in crate::cli) async fn create(
        &self,
        context: &CommandContext,
        scopes: &[Scope],
        expires_at: Option<Timestamp>,
    ) -> Result<(), CliError> {
        let mut body = Map::new();
        if !scopes.is_empty() {
            body.insert("scopes".to_owned(), scopes.iter().map(|scope| scope.as_str()).collect());
        }
        if let Some(at) = expires_at {
            body.insert("expires_at".to_owned(), json!(time::format(at)));
        }
        let created = self.session.post(Scope::Management, &self.collection_path(), &Value::Object(body)).await?;
        context
            .printer
            .print_object(&["client_id", "client_secret", "scopes", "created_at", "expires_at"], &created)?;
        printer::print_note(SECRET_SHOWN_ONCE);
        Ok(())
    }

    pub(in crate::cli) async fn delete(&self, client: &ClientId) -> Result<(), CliError> {
        self.session.delete(Scope::Management, &self.credential_path(client)).await?;
        printer::print_note("Credential deleted, tokens revoked.");
        Ok(())
    }

    fn collection_path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    fn credential_path<'a>(&'a self, client: &'a ClientId) -> Vec<&'a str> {
        [self.collection_path().as_slice(), &[client.as_str()]].concat()
    }
}
