//! The page *Getting started* of a sandbox project: a first verification in the browser, then the first API requests with
//! the tool of the user's choice.
//!
//! The page contains a secret only once, after its form has created a credential. In the demo project of `ringtrue
//! dev`, the commands on the page read the credential from a file. In other projects, they contain the client id, and
//! the user pastes the secret.

mod examples;

use std::cmp::Reverse;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use examples::{Credential, Example, ExampleContext, TOOLS, Tool};
use http::{HeaderMap, StatusCode};
use ringtrue_domain::{
    account::Permission,
    product::{Product, Scope},
    tenancy::{CredentialOwner, Mode, Name},
};
use ringtrue_engine::tenants::{ManagementError, NewCredential};
use ringtrue_web::{
    app::App,
    development::Development,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    page::{
        self, Layout, MenuSection, Tab,
        error::{ConsoleError, to_sentence},
    },
    session::{console_session::ProjectAccess, flash::Flash, forms::SessionForm},
};

/// Number for the verification in the browser. Each example uses another number, so that a search for the number finds
/// the checks of that example. All of them end with an even digit, so they match.
const FIRST_NUMBER: &str = "+990123456700";
/// Label of the credentials that the page creates.
const CREDENTIAL_LABEL: &str = "Getting started";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/getting-started", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/getting-started/credential", create_credential)
}

#[derive(derive_more::Debug, Template)]
#[template(path = "developers/getting_started.html")]
struct GettingStartedPage {
    layout: Layout,
    first_number: &'static str,
    has_verifications: bool,
    has_sign_in: bool,
    trials: Vec<&'static BrowserTrial>,
    tabs: Vec<Tab>,
    tool: &'static str,
    /// Whether the tool is a programming language with a client library. Its examples are about verifications only.
    is_library: bool,
    curl_path: String,
    install: Example,
    credential: SetupCredential,
    #[debug(skip)]
    setup: String,
    examples: Vec<Example>,
    error: Option<String>,
}

/// Credential in the setup commands.
#[derive(Debug)]
enum SetupCredential {
    /// The credential has just been created, and the commands contain its secret.
    New,
    /// The commands read the credential from the file of `ringtrue dev`.
    InFile,
    /// The commands contain this client id, and a placeholder for the secret.
    WithoutSecret(String),
    /// The project has no active credential.
    Missing,
}

impl SetupCredential {
    fn lacks_secret(&self) -> bool {
        matches!(self, SetupCredential::WithoutSecret(_) | SetupCredential::Missing)
    }
}

/// A form with which the user tries one product in the browser.
#[derive(Debug)]
struct BrowserTrial {
    product: Product,
    number: &'static str,
    text: &'static str,
}

impl BrowserTrial {
    /// Returns the project page to which the form leads, and the name of the field with the number.
    fn target_page_and_field(&self) -> (&'static str, &'static str) {
        match self.product {
            Product::Eligibility => ("eligibility", "user"),
            _ => ("handset", "number"),
        }
    }
}

/// The products to try in the browser, each with its own number.
const BROWSER_TRIALS: [BrowserTrial; 5] = [
    BrowserTrial {
        product: Product::ReverseSms,
        number: "+990123456718",
        text: "The user sends a prepared SMS, and Ringtrue compares its sender with the number.",
    },
    BrowserTrial {
        product: Product::SecureSna,
        number: "+990123456720",
        text: "The phone opens a URL over mobile data, and the operator compares its number.",
    },
    BrowserTrial {
        product: Product::Discovery,
        number: "+990123456722",
        text: "Like Secure SNA, but the operator returns the phone’s number.",
    },
    BrowserTrial {
        product: Product::SimSwap,
        number: "+990123456724",
        text: "The operator says whether the number’s SIM was changed recently.",
    },
    BrowserTrial {
        product: Product::Eligibility,
        number: "+990123456726",
        text: "Ringtrue says which products can verify the number’s user.",
    },
];

/// `GET …/projects/{project_id}/getting-started`
async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    if access.project.mode != Mode::Sandbox {
        return Ok(page::see_other(&format!("{}/overview", access.path())));
    }
    let tool = find_tool(Query::parse(query.as_deref(), &["with"])?.get("with"));
    let flash = Flash::read(&app, &access.session, &headers, &tool_path(&access, tool));
    let Some(Flash::NewCredential { client_id, secret, .. }) = flash else {
        return render(&app, &access, tool, None, None).await;
    };
    let new = Credential { client_id, secret: Some(secret) };
    Ok(Flash::clear(&app, render(&app, &access, tool, Some(new), None).await?))
}

/// `POST …/projects/{project_id}/getting-started/credential`: creates a credential for all products, and redirects to the
/// page, which shows its secret once.
async fn create_credential(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let access = form.session.authorize_project(&app, &ids, Permission::Develop).await?;
    if access.project.mode != Mode::Sandbox {
        return Ok(page::see_other(&format!("{}/overview", access.path())));
    }
    let tool = find_tool(form.fields.get("with"));
    let owner = CredentialOwner::Project(access.workspace.id, access.project.id);
    let label = CREDENTIAL_LABEL.parse::<Name>().ok();
    let new = NewCredential { scopes: None, expires_at: None, label };
    match app.engine.management.create_credential(&access.actor, owner, new, None).await {
        Ok(issued) => Flash::NewCredential {
            client_id: issued.credential.client_id.to_string(),
            secret: issued.secret.reveal().to_owned(),
            scope: String::new(),
            went_live: false,
        }
        .redirect(&app, &access.session, &tool_path(&access, tool)),
        Err(ManagementError::LimitReached(error)) => render(&app, &access, tool, None, Some(to_sentence(&error))).await,
        Err(error) => Err(error.into()),
    }
}

fn find_tool(name: Option<&str>) -> Tool {
    TOOLS.into_iter().find(|tool| name == Some(tool.name())).unwrap_or(TOOLS[0])
}

/// Returns the path of the page with the examples of the tool.
fn tool_path(access: &ProjectAccess, tool: Tool) -> String {
    page::path_with_query(&format!("{}/getting-started", access.path()), &[("with", Some(tool.name()))])
}

async fn render(
    app: &App,
    access: &ProjectAccess,
    tool: Tool,
    new: Option<Credential>,
    error: Option<String>,
) -> Result<Response, ConsoleError> {
    let project = &access.project;
    let is_demo = |development: &&Development| development.demo_project().is_some_and(|(_, id)| id == project.id);
    let development = app.development.as_deref();
    let has_secret = new.is_some();
    let credential = match new {
        Some(new) => Some(new),
        None => find_active_credential(app, access).await?,
    };
    let context = ExampleContext {
        base_url: app.engine.base_url(),
        development,
        // The commands read the credential from the file, unless the page has just created one and knows its secret.
        demo: development.filter(is_demo).filter(|_| !has_secret),
        credential: credential.as_ref(),
        workspace: access.workspace.id,
        products: &project.products,
    };
    let tab = |other: Tool| Tab {
        // The fragment makes the browser scroll to the tabs when the user selects one.
        path: format!("{}#with", tool_path(access, other)),
        title: other.title(),
        is_current: other == tool,
    };
    let status = if error.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let page = GettingStartedPage {
        layout: access.layout("Getting started", MenuSection::GettingStarted),
        first_number: FIRST_NUMBER,
        has_verifications: project.products.contains(&Product::Verification),
        has_sign_in: project.products.contains(&Product::SignIn),
        trials: BROWSER_TRIALS.iter().filter(|trial| project.products.contains(&trial.product)).collect(),
        tabs: TOOLS.map(tab).into(),
        tool: tool.name(),
        is_library: tool.is_library(),
        curl_path: format!("{}#with", tool_path(access, Tool::Curl)),
        install: context.install_example(tool),
        setup: context.render_setup_commands(tool),
        examples: context.examples(tool),
        credential: match (context.demo, &credential) {
            (Some(_), _) => SetupCredential::InFile,
            (None, Some(Credential { secret: Some(_), .. })) => SetupCredential::New,
            (None, Some(Credential { client_id, .. })) => SetupCredential::WithoutSecret(client_id.clone()),
            (None, None) => SetupCredential::Missing,
        },
        error,
    };
    Ok(page::render(status, &page))
}

/// Returns the active credential whose scopes cover the most products of the project. The newest one, if several do.
async fn find_active_credential(app: &App, access: &ProjectAccess) -> Result<Option<Credential>, ConsoleError> {
    let owner = CredentialOwner::Project(access.workspace.id, access.project.id);
    let newest = Query::parse(None, &[])?.page_with_default_size(page::PAGE_SIZE)?;
    let found = app.engine.management.list_credentials(&access.actor, owner, newest).await?;
    let now = app.engine.clock().now();
    let active = found.items.iter().filter(|credential| credential.is_active(now) && credential.retires_at.is_none());
    let covers = |credential: &&ringtrue_domain::tenancy::Credential| {
        let has_scope = |product: &&Product| credential.scopes.contains(&Scope::Product(**product));
        access.project.products.iter().filter(has_scope).count()
    };
    let best = active.min_by_key(|credential| Reverse(covers(credential)));
    Ok(best.map(|credential| Credential { client_id: credential.client_id.to_string(), secret: None }))
}
