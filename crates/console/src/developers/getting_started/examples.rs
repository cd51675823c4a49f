//! Commands and programs on the page *Getting started*, for each tool.

use ringtrue_domain::{product::Product, tenancy::WorkspaceId};
use ringtrue_web::development::{Development, shell_quote};

const CALLBACK_URL: &str = "http://127.0.0.1:9099/callbacks";

/// Tools in the order of the tabs. The first one is the default.
pub const TOOLS: [Tool; 5] = [Tool::CommandLine, Tool::Curl, Tool::Node, Tool::Python, Tool::Go];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    CommandLine,
    Curl,
    Node,
    Python,
    Go,
}

impl Tool {
    /// Returns the tool's name in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::CommandLine => "command-line",
            Tool::Curl => "curl",
            Tool::Node => "node",
            Tool::Python => "python",
            Tool::Go => "go",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Tool::CommandLine => "Command line",
            Tool::Curl => "curl",
            Tool::Node => "Node.js",
            Tool::Python => "Python",
            Tool::Go => "Go",
        }
    }

    pub const fn is_library(self) -> bool {
        matches!(self, Tool::Node | Tool::Python | Tool::Go)
    }
}

/// Commands or a program to copy, and a text that explains them.
#[derive(Debug)]
pub struct Example {
    pub id: &'static str,
    pub title: &'static str,
    pub text: &'static str,
    /// File in which the user saves the program. `None`: `commands` are shell commands.
    pub file: Option<ProgramFile>,
    /// Shell commands, or a program. Empty if the example is only a text.
    pub commands: String,
}

/// Where the user saves a program, and the command that runs it.
#[derive(Debug)]
pub struct ProgramFile {
    pub name: &'static str,
    pub run: &'static str,
}

/// Credential that the setup commands contain.
#[derive(derive_more::Debug)]
pub struct Credential {
    pub client_id: String,
    /// Known only on the page that follows the credential's creation. `None`: the user has to paste the secret.
    #[debug(skip)]
    pub secret: Option<String>,
}

/// Data of the deployment and project that the examples contain.
pub struct ExampleContext<'a> {
    pub base_url: &'a str,
    pub development: Option<&'a Development>,
    /// Set in the demo project of `ringtrue dev`, whose commands read the credential from a file.
    pub demo: Option<&'a Development>,
    pub credential: Option<&'a Credential>,
    pub workspace: WorkspaceId,
    pub products: &'a [Product],
}

impl ExampleContext<'_> {
    /// Explains how to install the tool.
    pub fn install_example(&self, tool: Tool) -> Example {
        let install = |title, text, commands: &[&str]| Example {
            id: "install",
            title,
            text,
            file: None,
            commands: commands.join("\n"),
        };
        let source = "RINGTRUE_SOURCE=~/ringtrue";
        match tool {
            Tool::CommandLine => install(
                "Get the command line",
                "The program that runs the service is also the API client. Copy it to a directory of your PATH, or \
                 install the Debian package.",
                &[&self.command("--version")],
            ),
            Tool::Curl => {
                install("Get curl", "You need curl and a POSIX shell, which most systems have.", &["curl --version"])
            }
            Tool::Node => install(
                "Install the library",
                "The library needs Node.js 18 or later. It is not on npm yet: pack it in a clone of Ringtrue’s \
                 repository, and install the file in your project.",
                &[
                    source,
                    r#"(cd "$RINGTRUE_SOURCE/sdks/typescript" && scripts/install . && scripts/build && npm pack --pack-destination "$OLDPWD")"#,
                    "npm install ./ringtrue-server-*.tgz",
                ],
            ),
            Tool::Python => install(
                "Install the library",
                "The library needs Python 3.9 or later. It is not on PyPI yet: pack it in a clone of Ringtrue’s \
                 repository, and install the file in your project.",
                &[
                    source,
                    "python3 -m venv .venv",
                    r#".venv/bin/pip wheel --no-deps "$RINGTRUE_SOURCE/sdks/python""#,
                    ".venv/bin/pip install ./ringtrue-*.whl",
                ],
            ),
            Tool::Go => install(
                "Install the library",
                "The library needs Go 1.19 or later. No module proxy has it yet: pack it in a clone of Ringtrue’s \
                 repository, and get it from there.",
                &[
                    source,
                    "go mod init example.com/shop",
                    r#""$RINGTRUE_SOURCE/sdks/go/pack" "$PWD/packed""#,
                    r#"GOPROXY="file://$PWD/packed" GONOSUMDB=ringtrue.example go get ringtrue.example/ringtrue@v1.0.0"#,
                ],
            ),
        }
    }

    /// Renders commands that set the environment variables that all tools read. For curl, they also define functions
    /// that need only a POSIX shell, `curl` and `grep -o`.
    pub fn render_setup_commands(&self, tool: Tool) -> String {
        let (id, secret) = self.client_credential();
        let mut lines = vec![
            format!("export RINGTRUE_URL={}", shell_quote(self.base_url)),
            format!("export RINGTRUE_CLIENT_ID={id}"),
            format!("export RINGTRUE_CLIENT_SECRET={secret}"),
        ];
        if tool == Tool::Curl {
            lines.extend([
                "json='Content-Type: application/json'",
                r#"of() { printf '%s\n' "$1" | grep -o "\"$2\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }"#,
                r#"token() { of "$(curl -s -u "$RINGTRUE_CLIENT_ID:$RINGTRUE_CLIENT_SECRET" -d grant_type=client_credentials -d "scope=$1" "$RINGTRUE_URL/oauth2/token")" access_token; }"#,
            ].map(str::to_owned));
        }
        lines.join("\n")
    }

    /// Returns the client id and the secret as quoted shell words. In the demo project, these are commands that read a
    /// file.
    fn client_credential(&self) -> (String, String) {
        if let Some(development) = self.demo {
            let file = development.credentials_file();
            let read =
                |member: &str| format!(r#""$(sed -n '/"project"/,$ s/.*"{member}": "\([^"]*\)".*/\1/p' {file})""#);
            return (read("client_id"), read("client_secret"));
        }
        let id = self.credential.map(|credential| credential.client_id.as_str());
        let secret = self.credential.and_then(|credential| credential.secret.as_deref());
        (shell_quote(id.unwrap_or("PASTE THE CLIENT ID")), shell_quote(secret.unwrap_or("PASTE THE CLIENT SECRET")))
    }

    pub fn examples(&self, tool: Tool) -> Vec<Example> {
        match tool {
            Tool::CommandLine => self.command_line_examples(),
            Tool::Curl => self.curl_examples(),
            _ if !self.has(Product::Verification) => vec![],
            Tool::Node => self.library_examples([
                (include_str!("../../../snippets/verify.mjs"), "verify.mjs", "node verify.mjs"),
                (include_str!("../../../snippets/sign-up.mjs"), "sign-up.mjs", "node sign-up.mjs"),
                (include_str!("../../../snippets/callbacks.mjs"), "callbacks.mjs", "node callbacks.mjs"),
            ]),
            Tool::Python => self.library_examples([
                (include_str!("../../../snippets/verify.py"), "verify.py", ".venv/bin/python verify.py"),
                (include_str!("../../../snippets/sign-up.py"), "sign-up.py", ".venv/bin/python sign-up.py"),
                (include_str!("../../../snippets/callbacks.py"), "callbacks.py", ".venv/bin/python callbacks.py"),
            ]),
            Tool::Go => self.library_examples([
                (include_str!("../../../snippets/verify.go"), "verify.go", "go run verify.go"),
                (include_str!("../../../snippets/sign-up.go"), "sign-up.go", "go run sign-up.go"),
                (include_str!("../../../snippets/callbacks.go"), "callbacks.go", "go run callbacks.go"),
            ]),
        }
    }

    fn has(&self, product: Product) -> bool {
        self.products.contains(&product)
    }

    /// Renders a command line that runs the `ringtrue` client.
    fn command(&self, arguments: &str) -> String {
        self.development.map_or_else(|| format!("ringtrue {arguments}"), |development| development.command(arguments))
    }

    /// Returns three examples for a client library: a first verification, a sign-up that redeems the verification's
    /// result, and a callback receiver.
    fn library_examples(&self, programs: [(&str, &'static str, &'static str); 3]) -> Vec<Example> {
        let [verify, sign_up, callbacks] = programs;
        let example = |id, title, text, (program, name, run): (&str, &'static str, &'static str)| Example {
            id,
            title,
            text,
            file: Some(ProgramFile { name, run }),
            commands: program.trim_end().to_owned(),
        };
        let callbacks_text = if self.development.is_some() {
            "Receives callbacks, and verifies their signatures. To get one, create a verification with the callback URL \
             http://127.0.0.1:9099/callbacks."
        } else {
            "Receives callbacks, and verifies their signatures. Make the port reachable by a public URL, and set that \
             URL in the program and in this project’s settings."
        };
        vec![
            example(
                "verify",
                "First verification",
                "Creates a verification, prints the URL of its hosted page, and waits for the result.",
                verify,
            ),
            example(
                "sign-up",
                "Receive the result",
                "A small web server, like your own: it sends the browser to the hosted page, and redeems the code that \
                 the browser brings back.",
                sign_up,
            ),
            example("callbacks", "Receive callbacks", callbacks_text, callbacks),
        ]
    }

    fn command_line_examples(&self) -> Vec<Example> {
        let example = |id, title, text, commands: Vec<String>| Example {
            id,
            title,
            text,
            file: None,
            commands: commands.join("\n"),
        };
        let mut login = vec![match self.demo {
            Some(development) => development.data_command("login"),
            None => self.command(r#"login --base-url "$RINGTRUE_URL" --client-id "$RINGTRUE_CLIENT_ID""#),
        }];
        if self.has(Product::Verification) {
            login.push(self.command("verify +990123456714"));
        }
        if self.has(Product::ReverseSms) {
            login.push(self.command("reverse-sms create +990123456716"));
            login.push(self.command("trigger"));
        }
        let mut others = vec![];
        if self.has(Product::SecureSna) {
            others.push(self.command("secure-sna create +990123456740"));
            others.push(self.command("trigger --redeem"));
        }
        if self.has(Product::Discovery) {
            others.push(self.command("discovery create"));
            others.push(self.command("trigger --sim +990123456742 --redeem"));
        }
        if self.has(Product::SimSwap) {
            others.push(self.command("sim-swap create +990123456744"));
        }
        if self.has(Product::Eligibility) {
            others.push(self.command("eligibility number +990123456746"));
        }
        let mut examples = vec![example(
            "client",
            "First verification",
            "Keeps the credential in a profile, and verifies a number from start to end, with a simulated phone.",
            login,
        )];
        examples.push(match self.development {
            Some(development) => example(
                "listen",
                "Receive the result",
                "The commands print it. To receive callbacks, too, start a receiver in a second terminal: it prints \
                 each callback and verifies its signature.",
                vec![development.data_command("listen")],
            ),
            None => example(
                "listen",
                "Receive the result",
                "The commands print it. To receive callbacks, too, start a receiver, make its port reachable by a \
                 public URL, and set that URL in the settings of this project. The receiver prints each callback and \
                 verifies its signature.",
                vec![self.command(&format!(
                    "listen --accept-sandbox --jwks {}",
                    shell_quote(&format!("{}/.well-known/jwks.json", self.base_url))
                ))],
            ),
        });
        if !others.is_empty() {
            examples.push(example(
                "products",
                "Other products",
                "The simulated phone opens the URL of the check, and the code is redeemed.",
                others,
            ));
        }
        examples
    }

    fn curl_examples(&self) -> Vec<Example> {
        let mut examples = vec![];
        examples.extend(self.development.map(|development| Example {
            id: "listen",
            title: "Receive callbacks",
            text: "In a second terminal, start a receiver. It prints each callback and verifies its signature.",
            file: None,
            commands: development.data_command("listen"),
        }));
        let products = product_examples(self.development.is_some());
        examples.extend(products.into_iter().filter(|(product, _)| self.has(*product)).map(|(_, example)| example));
        examples.extend(self.demo.map(|development| Example {
            id: "management",
            title: "Management API",
            text: "Lists the projects of this workspace, with a credential of the workspace.",
            file: None,
            commands: management_commands(development, self.workspace),
        }));
        examples
    }
}

/// Returns the examples in the order in which the page shows them.
fn product_examples(has_local_callbacks: bool) -> [(Product, Example); 7] {
    let callback = if has_local_callbacks { format!(r#", "callback_url": "{CALLBACK_URL}""#) } else { String::new() };
    let example = |product: Product, text, commands: &[String]| {
        (
            product,
            Example { id: product.into_str(), title: product.title(), text, file: None, commands: commands.join("\n") },
        )
    };
    let sms_checks = "/v1/number-verification/reverse-sms-checks";
    [
        example(
            Product::Verification,
            "Creates a verification, prints the URL of its hosted page, and reads the verification. Open the page, then \
             repeat the last command.",
            &[
                auth_header_command(Product::Verification),
                create_command(r#"{"phone_number": "+990123456702"}"#, "/v1/verifications"),
                r#"of "$check" url"#.to_owned(),
                get_command(r#"/v1/verifications/$(of "$check" verification_id)"#),
            ],
        ),
        (
            Product::Verification,
            Example {
                id: "result",
                title: "Receive the result",
                text: "Creates a verification, opens the URL of its first step as the browser of a phone on mobile data \
                   would, and redeems the code. From the hosted page, the browser brings the code to your redirect \
                   URL.",
                file: None,
                commands: [
                    auth_header_command(Product::Verification),
                    create_command(r#"{"phone_number": "+990123456748"}"#, "/v1/verifications"),
                    r#"code=$(of "$(curl -sL "$(of "${check#*next_step}" url)")" code)"#.to_owned(),
                    post_command(r#"{\"code\": \"$code\"}"#, r#"/v1/verifications/$(of "$check" verification_id)"#),
                ]
                .join("\n"),
            },
        ),
        example(
            Product::ReverseSms,
            "Creates a check, sends its SMS from a simulated phone, and reads the result.",
            &[
                auth_header_command(Product::ReverseSms),
                create_command(&format!(r#"{{"phone_number": "+990123456704"{callback}}}"#), sms_checks),
                post_command(
                    r#"{\"from\": \"+990123456704\", \"to\": \"$(of "$check" receiver_phone_number)\", \"body\": \"$(of "$check" expected_sms_body)\"}"#,
                    "/v1/sandbox/inbound-sms",
                ),
                get_command(&format!(r#"{sms_checks}/$(of "$check" check_id)"#)),
            ],
        ),
        example(
            Product::SecureSna,
            "Creates a check, opens its URL as the browser of a phone on mobile data would, and redeems the code.",
            &silent_commands(Product::SecureSna, r#"{"phone_number": "+990123456706"}"#, "secure-sna-checks", ""),
        ),
        example(
            Product::Discovery,
            "Like Secure SNA, but without a number: the operator returns the phone’s number.",
            &silent_commands(Product::Discovery, "{}", "discovery-checks", "&sim=%2B990123456708"),
        ),
        example(
            Product::SimSwap,
            "Asks the operator when the SIM of a number was changed. The result is immediate.",
            &[
                auth_header_command(Product::SimSwap),
                post_command(r#"{\"phone_number\": \"+990123456710\"}"#, "/v1/sim-swap-checks"),
            ],
        ),
        example(
            Product::Eligibility,
            "Asks which products can verify the user of a number.",
            &[auth_header_command(Product::Eligibility), get_command("/v1/eligibility/phone-numbers/+990123456712")],
        ),
    ]
}

/// Renders the commands of a silent check. `more` is appended to the check's URL.
fn silent_commands(product: Product, body: &str, collection: &str, more: &str) -> [String; 4] {
    let path = format!("/v1/number-verification/{collection}");
    [
        auth_header_command(product),
        create_command(body, &path),
        format!(r#"code=$(of "$(curl -sL "$(of "$check" url){more}")" code)"#),
        post_command(r#"{\"code\": \"$code\"}"#, &format!(r#"{path}/$(of "$check" check_id)"#)),
    ]
}

fn auth_header_command(product: Product) -> String {
    format!(r#"auth="Authorization: Bearer $(token {product})""#)
}

/// Renders a command that creates a check and keeps the response in `$check`. The shell gets `body` in single quotes.
fn create_command(body: &str, path: &str) -> String {
    format!(r#"check=$(curl -s -H "$auth" -H "$json" -d '{body}' "$RINGTRUE_URL{path}")"#)
}

/// Renders a `POST` command. The shell gets `body` in double quotes, so it expands variables in it.
fn post_command(body: &str, path: &str) -> String {
    format!(r#"curl -s -H "$auth" -H "$json" -d "{body}" "$RINGTRUE_URL{path}"; echo"#)
}

fn get_command(path: &str) -> String {
    format!(r#"curl -s -H "$auth" "$RINGTRUE_URL{path}"; echo"#)
}

fn management_commands(development: &Development, workspace: WorkspaceId) -> String {
    let file = development.credentials_file();
    let read = |member: &str| format!(r#"$(sed -n '/"workspace"/,/}}/ s/.*"{member}": "\([^"]*\)".*/\1/p' {file})"#);
    let (id, secret) = (read("client_id"), read("client_secret"));
    [
        format!(r#"auth="Authorization: Bearer $(RINGTRUE_CLIENT_ID={id} RINGTRUE_CLIENT_SECRET={secret}; token management)""#),
        get_command(&format!("/v1/management/workspaces/{workspace}/projects")),
    ]
    .join("\n")
}
