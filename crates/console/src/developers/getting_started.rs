//! The page *Getting started* of a sandbox project: a first verification in the browser, then the first API requests.
//!
//! The page never contains a secret. In the demo project of `ringtrue dev`, its commands read the credentials from a
//! file. In other projects, the user pastes them.

use askama::Template;
use axum::{extract::State, response::Response};
use ringtrue_domain::{
    product::Product,
    tenancy::{Mode, Project, WorkspaceId},
};
use ringtrue_web::{
    app::App,
    development::{Development, shell_quote},
    routes::Routes,
};

use crate::{
    page::{self, Layout, MenuSection},
    session::console_session::ProjectAccess,
};

/// Number for the verification in the browser. Each example uses another number, so that a search for the number finds
/// the checks of that example. All of them end with an even digit, so they match.
const FIRST_NUMBER: &str = "+990123456700";
const CALLBACK_URL: &str = "http://127.0.0.1:9099/callbacks";

pub fn routes() -> Routes {
    Routes::default().get("/console/workspaces/{workspace_id}/projects/{project_id}/getting-started", show)
}

#[derive(Debug, Template)]
#[template(path = "developers/getting_started.html")]
struct GettingStartedPage {
    layout: Layout,
    first_number: &'static str,
    has_verifications: bool,
    trials: Vec<&'static BrowserTrial>,
    is_demo_project: bool,
    setup: String,
    examples: Vec<Example>,
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
    fn form(&self) -> (&'static str, &'static str) {
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
        text: "The user sends a prepared SMS, whose sender is compared with the number.",
    },
    BrowserTrial {
        product: Product::SecureSna,
        number: "+990123456720",
        text: "The phone opens a URL over mobile data, and the operator compares its number.",
    },
    BrowserTrial {
        product: Product::Discovery,
        number: "+990123456722",
        text: "As Secure SNA, but the operator returns the number of the phone.",
    },
    BrowserTrial {
        product: Product::SimSwap,
        number: "+990123456724",
        text: "The operator says whether the SIM of a number was changed recently.",
    },
    BrowserTrial {
        product: Product::Eligibility,
        number: "+990123456726",
        text: "The service says which products can verify the user of a number.",
    },
];

/// Commands to copy, and a text that explains them.
#[derive(Debug)]
struct Example {
    id: &'static str,
    title: &'static str,
    text: &'static str,
    commands: String,
}

/// `GET …/projects/{project_id}/getting-started`
async fn show(State(app): State<App>, access: ProjectAccess) -> Response {
    let project = &access.project;
    if project.mode != Mode::Sandbox {
        return page::see_other(&format!("{}/overview", access.path()));
    }
    let development = app.development.as_deref();
    let is_demo = |development: &&Development| development.demo_project().is_some_and(|(_, id)| id == project.id);
    let demo = development.filter(is_demo);
    let base_url = app.engine.base_url();
    let mut examples = Vec::new();
    examples.extend(development.map(|development| Example {
        id: "listen",
        title: "Receive callbacks",
        text: "In a second terminal, start a receiver. It prints each callback and verifies its signature.",
        commands: development.data_command("listen"),
    }));
    let products = product_examples(development.is_some());
    examples.extend(products.into_iter().filter(|(product, _)| project.products.contains(product)).map(|(_, of)| of));
    examples.extend(demo.map(|development| Example {
        id: "management",
        title: "Management API",
        text: "Lists the projects of this workspace, with a credential of the workspace.",
        commands: management_commands(development, access.workspace.id),
    }));
    examples.push(Example {
        id: "client",
        title: "Command line",
        text: "The same with the API client in the binary, which keeps credentials in a profile.",
        commands: client_commands(base_url, development, demo, project),
    });
    page::render_ok(&GettingStartedPage {
        layout: access.layout("Getting started", MenuSection::GettingStarted),
        first_number: FIRST_NUMBER,
        has_verifications: project.products.contains(&Product::Verification),
        trials: BROWSER_TRIALS.iter().filter(|trial| project.products.contains(&trial.product)).collect(),
        is_demo_project: demo.is_some(),
        setup: setup_commands(base_url, demo),
        examples,
    })
}

/// Renders commands that set variables and functions for the other commands. They need only a POSIX shell, `curl` and
/// `grep -o`.
fn setup_commands(base_url: &str, demo: Option<&Development>) -> String {
    let (id, secret) = match demo {
        Some(development) => {
            let file = development.credentials_file();
            let read = |member: &str| format!(r#"$(sed -n '/"project"/,$ s/.*"{member}": "\([^"]*\)".*/\1/p' {file})"#);
            (read("client_id"), read("client_secret"))
        }
        None => ("'PASTE THE CLIENT ID'".to_owned(), "'PASTE THE CLIENT SECRET'".to_owned()),
    };
    [
        format!("base_url={}", shell_quote(base_url)).as_str(),
        format!("CLIENT_ID={id}").as_str(),
        format!("CLIENT_SECRET={secret}").as_str(),
        "json='Content-Type: application/json'",
        r#"of() { printf '%s\n' "$1" | grep -o "\"$2\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }"#,
        r#"token() { of "$(curl -s -u "$CLIENT_ID:$CLIENT_SECRET" -d grant_type=client_credentials -d "scope=$1" "$base_url/oauth2/token")" access_token; }"#,
    ]
    .join("\n")
}

/// Returns the examples in the order in which the page shows them.
fn product_examples(has_local_callbacks: bool) -> [(Product, Example); 6] {
    let callback = if has_local_callbacks { format!(r#", "callback_url": "{CALLBACK_URL}""#) } else { String::new() };
    let example = |product: Product, text, commands: &[String]| {
        (product, Example { id: product.into_str(), title: product.title(), text, commands: commands.join("\n") })
    };
    let sms_checks = "/v1/number-verification/reverse-sms-checks";
    [
        example(
            Product::Verification,
            "Creates a verification, prints the URL of its hosted page, and reads the verification. Open the page, then \
             repeat the last command.",
            &[
                authorize(Product::Verification),
                create(r#"{"phone_number": "+990123456702"}"#, "/v1/verifications"),
                r#"of "$check" url"#.to_owned(),
                get(r#"/v1/verifications/$(of "$check" verification_id)"#),
            ],
        ),
        example(
            Product::ReverseSms,
            "Creates a check, sends its SMS from a simulated phone, and reads the result.",
            &[
                authorize(Product::ReverseSms),
                create(&format!(r#"{{"phone_number": "+990123456704"{callback}}}"#), sms_checks),
                post(
                    r#"{\"from\": \"+990123456704\", \"to\": \"$(of "$check" receiver_phone_number)\", \"body\": \"$(of "$check" expected_sms_body)\"}"#,
                    "/v1/sandbox/inbound-sms",
                ),
                get(&format!(r#"{sms_checks}/$(of "$check" check_id)"#)),
            ],
        ),
        example(
            Product::SecureSna,
            "Creates a check, opens its URL as the browser of a phone on mobile data would, and redeems the code.",
            &silent_commands(Product::SecureSna, r#"{"phone_number": "+990123456706"}"#, "secure-sna-checks", ""),
        ),
        example(
            Product::Discovery,
            "As Secure SNA, but without a number: the operator returns the number of the phone.",
            &silent_commands(Product::Discovery, "{}", "discovery-checks", "&sim=%2B990123456708"),
        ),
        example(
            Product::SimSwap,
            "Asks the operator when the SIM of a number was changed. The result is immediate.",
            &[authorize(Product::SimSwap), post(r#"{\"phone_number\": \"+990123456710\"}"#, "/v1/sim-swap-checks")],
        ),
        example(
            Product::Eligibility,
            "Asks which products can verify the user of a number.",
            &[authorize(Product::Eligibility), get("/v1/eligibility/phone-numbers/+990123456712")],
        ),
    ]
}

/// Renders the commands of a silent check. `more` is appended to the check's URL.
fn silent_commands(product: Product, body: &str, collection: &str, more: &str) -> [String; 4] {
    let path = format!("/v1/number-verification/{collection}");
    [
        authorize(product),
        create(body, &path),
        format!(r#"code=$(of "$(curl -sL "$(of "$check" url){more}")" code)"#),
        post(r#"{\"code\": \"$code\"}"#, &format!(r#"{path}/$(of "$check" check_id)"#)),
    ]
}

fn authorize(product: Product) -> String {
    format!(r#"auth="Authorization: Bearer $(token {product})""#)
}

/// Renders a command that creates a check and keeps the response in `$check`. The shell gets `body` in single quotes.
fn create(body: &str, path: &str) -> String {
    format!(r#"check=$(curl -s -H "$auth" -H "$json" -d '{body}' "$base_url{path}")"#)
}

/// Renders a `POST` command. The shell gets `body` in double quotes, so it expands variables in it.
fn post(body: &str, path: &str) -> String {
    format!(r#"curl -s -H "$auth" -H "$json" -d "{body}" "$base_url{path}"; echo"#)
}

fn get(path: &str) -> String {
    format!(r#"curl -s -H "$auth" "$base_url{path}"; echo"#)
}

fn management_commands(development: &Development, workspace: WorkspaceId) -> String {
    let file = development.credentials_file();
    let read = |member: &str| format!(r#"$(sed -n '/"workspace"/,/}}/ s/.*"{member}": "\([^"]*\)".*/\1/p' {file})"#);
    let (id, secret) = (read("client_id"), read("client_secret"));
    [
        format!(r#"auth="Authorization: Bearer $(CLIENT_ID={id} CLIENT_SECRET={secret}; token management)""#),
        get(&format!("/v1/management/workspaces/{workspace}/projects")),
    ]
    .join("\n")
}

/// Renders commands that use the `ringtrue` API client.
fn client_commands(
    base_url: &str,
    development: Option<&Development>,
    demo: Option<&Development>,
    project: &Project,
) -> String {
    let command = |arguments: &str| {
        development.map_or_else(|| format!("ringtrue {arguments}"), |development| development.command(arguments))
    };
    let mut lines = vec![match demo {
        Some(development) => development.data_command("login"),
        None => command(&format!("login --base-url {} --client-id \"$CLIENT_ID\"", shell_quote(base_url))),
    }];
    if project.products.contains(&Product::Verification) {
        lines.push(command("verify +990123456714"));
    }
    if project.products.contains(&Product::ReverseSms) {
        lines.push(command("reverse-sms create +990123456716"));
        lines.push(command("trigger"));
    }
    lines.join("\n")
}
