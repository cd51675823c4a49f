//! `ringtrue credentials`, through the Management API: those of a workspace, or of one of its projects.

use jiff::Timestamp;
use ringtrue_domain::{
    product::Scope,
    tenancy::{ClientId, ProjectId},
};
use serde_json::{Map, Value, json};

use super::{
    arguments::{Identity, ListArguments},
    list::list,
    session::Session,
};
use crate::{
    cli::{
        credentials::SHOWN_ONCE,
        desk::Desk,
        failure::Failure,
        printer::{self},
    },
    http::time,
};

const COLUMNS: [&str; 4] = ["client_id", "scopes", "created_at", "expires_at"];

/// Whose credentials.
pub(in crate::cli) struct Credentials {
    session: Session,
    path: Vec<String>,
}

impl Credentials {
    pub(in crate::cli) fn open(desk: &Desk, identity: &Identity, project: Option<ProjectId>) -> Result<Self, Failure> {
        let session = Session::open(desk, identity)?;
        let workspace = session.workspace()?.to_owned();
        let mut path = ["v1", "management", "workspaces", &workspace].map(str::to_owned).to_vec();
        if let Some(project) = project {
            path.extend(["projects".to_owned(), project.to_string()]);
        }
        path.push("credentials".to_owned());
        Ok(Credentials { session, path })
    }

    pub(in crate::cli) async fn list(&self, desk: &Desk, arguments: &ListArguments) -> Result<(), Failure> {
        list(desk, &self.session, Scope::Management, &self.path(), &COLUMNS, arguments).await
    }

    pub(in crate::cli) async fn get(&self, desk: &Desk, client: &ClientId) -> Result<(), Failure> {
        let credential = self.session.get(Scope::Management, &self.path_of(client), &[]).await?;
        Ok(desk.printer.object(&COLUMNS, &credential)?)
    }

    pub(in crate::cli) async fn create(
        &self,
        desk: &Desk,
        scopes: &[Scope],
        expires_at: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let mut body = Map::new();
        if !scopes.is_empty() {
            body.insert("scopes".to_owned(), scopes.iter().map(|scope| scope.as_str()).collect());
        }
        if let Some(at) = expires_at {
            body.insert("expires_at".to_owned(), json!(time::format(at)));
        }
        let created = self.session.post(Scope::Management, &self.path(), &Value::Object(body)).await?;
        desk.printer.object(&["client_id", "client_secret", "scopes", "created_at", "expires_at"], &created)?;
        printer::remark(SHOWN_ONCE);
        Ok(())
    }

    pub(in crate::cli) async fn delete(&self, client: &ClientId) -> Result<(), Failure> {
        self.session.delete(Scope::Management, &self.path_of(client)).await?;
        printer::remark("Deleted, and its tokens with it.");
        Ok(())
    }

    fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    fn path_of<'a>(&'a self, client: &'a ClientId) -> Vec<&'a str> {
        [self.path().as_slice(), &[client.as_str()]].concat()
    }
}
