//! Tests how `login` saves profiles and how tokens are used.

use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{TestClient, text};
use crate::setup::Deployment;

#[test]
fn dev_profile_is_saved_in_private_files() {
    let client = TestClient::start();
    let dev = client.dev();
    let login = client.run("login --data data --output json").expect_code(0);
    let secrets = [&dev["project"], &dev["workspace"]].map(|access| text(access, "client_secret").to_owned());
    for secret in &secrets {
        assert!(!login.text().contains(secret) && !login.errors().contains(secret), "no secret is shown");
    }
    let profile: Value = serde_json::from_str(&login.text()).unwrap();
    assert_eq!(profile["base_url"], dev["base_url"]);
    assert_eq!(profile["workspace_id"], dev["workspace"]["workspace_id"]);
    assert_eq!(client.json("profiles"), json!([profile]));

    client.run("token --scope reverse_sms").expect_code(0);
    client.run("reverse-sms create +990123456700").expect_code(0);
    for folder in ["", "/profiles", "/tokens", "/errands"] {
        assert_eq!(client.mode(&format!("config/ringtrue{folder}")), 0o700, "{folder}");
    }
    for file in ["profiles", "tokens", "errands"] {
        assert_eq!(client.mode(&format!("config/ringtrue/{file}/default.json")), 0o600, "{file}");
    }

    client.run("logout").expect_code(0);
    for file in ["profiles", "tokens", "errands"] {
        assert!(!client.path(&format!("config/ringtrue/{file}/default.json")).exists(), "{file}");
    }
    client.run("logout").expect_code(6);
}

#[test]
fn secret_is_read_from_standard_input_or_the_environment() {
    let client = TestClient::start();
    let dev = client.dev();
    let login = |owner: &str| {
        format!("login --base-url {} --client-id {}", text(&dev, "base_url"), text(&dev[owner], "client_id"))
    };
    let secret = |owner: &str| text(&dev[owner], "client_secret").to_owned();

    // The second login adds the workspace credential to the profile and keeps the project credential.
    client.pipe(&login("project"), &format!("{}\n", secret("project"))).expect_code(0);
    let lacking = client.run("projects list").expect_code(6).errors();
    assert!(lacking.contains("this command needs a workspace credential"), "{lacking}");
    let mut command = client.command(&login("workspace"));
    command.env("RINGTRUE_CLIENT_SECRET", secret("workspace"));
    crate::process::run(&mut command).expect_code(0);
    client.run("projects list").expect_code(0);
    client.run("reverse-sms list").expect_code(0);
    let profile = client.json("profiles");
    assert_eq!(profile[0]["project_client_id"], dev["project"]["client_id"]);
    assert_eq!(profile[0]["workspace_client_id"], dev["workspace"]["client_id"]);
    assert_eq!(profile[0]["workspace_id"], dev["workspace"]["workspace_id"]);

    let nothing = client.run(&login("project")).expect_code(1).errors();
    assert!(nothing.contains("no client secret given"), "{nothing}");
    let with_path = client.run(&format!("login --base-url {}/v1 --client-id x", text(&dev, "base_url")));
    assert!(with_path.expect_code(2).errors().contains("is not the base URL of a server"));
}

/// Runs a command on a pseudo-terminal, answers its prompts, and returns the screen content.
fn run_on_terminal(client: &TestClient, line: &str, answers: &[(&str, &str)]) -> String {
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_ringtrue"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_CONFIG_HOME", client.path("config"));
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script runs");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = vec![];
    for (prompt, input) in answers {
        let answered = seen.len();
        while !String::from_utf8_lossy(&seen[answered..]).contains(prompt) {
            let mut byte = [0];
            screen.read_exact(&mut byte).expect("the prompt appears");
            seen.extend(byte);
        }
        keys.write_all(format!("{input}\n").as_bytes()).unwrap();
    }
    screen.read_to_end(&mut seen).unwrap();
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&seen));
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn typed_secret_is_not_echoed() {
    let client = TestClient::start();
    let dev = client.dev();
    let (id, secret) = (text(&dev["project"], "client_id"), text(&dev["project"], "client_secret"));
    let login = format!("login --base-url {} --client-id {id}", text(&dev, "base_url"));
    let seen = run_on_terminal(&client, &login, &[(&format!("Client secret of {id}: "), secret)]);
    assert!(seen.contains("BASE URL") && !seen.contains(secret), "{seen}");
    client.run("reverse-sms list").expect_code(0);
}

#[test]
fn login_prompts_for_what_is_missing() {
    let client = TestClient::start();
    let dev = client.dev();
    let (url, id) = (text(&dev, "base_url"), text(&dev["project"], "client_id"));
    let secret = text(&dev["project"], "client_secret");
    let ask_secret = format!("Client secret of {id}: ");
    let ask_id = "Client id of a project or workspace: ";
    let answers = [
        ("URL of the server: ", "http://example.com"),
        ("URL of the server: ", url),
        (ask_id, id),
        (&*ask_secret, secret),
    ];
    let seen = run_on_terminal(&client, "login", &answers);
    assert!(seen.contains("plain HTTP is allowed for this machine only") && !seen.contains(secret), "{seen}");
    client.run("reverse-sms list").expect_code(0);

    // The prompt offers the URL of the saved profile, and an empty answer accepts it.
    let again = run_on_terminal(&client, "login", &[(&format!("[{url}]: "), ""), (ask_id, id), (&ask_secret, secret)]);
    assert!(again.contains("BASE URL"), "{again}");

    let missing = client.run("login").expect_code(2).errors();
    assert!(missing.contains("--base-url and --client-id missing") && missing.contains("--data"), "{missing}");
    let missing = client.run(&format!("login --base-url {url}")).expect_code(2).errors();
    assert!(missing.starts_with("ringtrue: --client-id missing"), "{missing}");
}

#[test]
fn wrong_secret_is_rejected_and_not_saved() {
    let client = TestClient::start();
    let dev = client.dev();
    for (id, secret) in [(text(&dev["project"], "client_id"), "rts_wrong"), ("nobody", "rts_wrong"), ("a:b", "ü%41")] {
        let login = format!("login --base-url {} --client-id {id}", text(&dev, "base_url"));
        let refused = client.pipe(&login, secret).expect_code(6).errors();
        assert!(refused.contains("/errors/") && !refused.contains(secret), "{refused}");
    }
    assert_eq!(client.json("profiles"), json!([]));
}

#[test]
fn unknown_profile_lists_the_known_ones() {
    let client = TestClient::empty();
    let nothing = client.run("reverse-sms list").expect_code(6).errors();
    assert!(nothing.contains("no profile `default`") && nothing.contains("ringtrue login"), "{nothing}");

    let client = TestClient::start();
    client.run("login --data data --profile mine").expect_code(0);
    let unknown = client.run("token --scope discovery --profile other").expect_code(6).errors();
    assert!(unknown.contains("no profile `other`") && unknown.contains("Profiles: mine."), "{unknown}");
    client.run("token --scope discovery --profile mine").expect_code(0);
    let mut command = client.command("token --scope discovery");
    crate::process::run(command.env("RINGTRUE_PROFILE", "mine")).expect_code(0);
    let mut command = client.command("token --scope discovery");
    crate::process::run(command.env("RINGTRUE_PROFILE", "../mine")).expect_code(2);
}

#[test]
fn profile_file_readable_by_others_is_rejected() {
    let client = TestClient::signed_in();
    let file = client.path("config/ringtrue/profiles/default.json");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let refused = client.run("reverse-sms list").expect_code(1).errors();
    assert!(refused.contains("mode 0644") && refused.contains("chmod 600"), "{refused}");
}

#[test]
fn tokens_are_cached_until_rejected() {
    let client = TestClient::signed_in();
    let token = |client: &TestClient| client.run("token --scope reverse_sms").expect_code(0).text();
    let first = token(&client);
    assert_eq!(token(&client), first, "the token is cached");
    assert_ne!(client.run("token --scope discovery").text(), first, "each scope has its own token");

    let file = client.path("config/ringtrue/tokens/default.json");
    let kept = fs::read_to_string(&file).unwrap();
    fs::write(&file, kept.replace(first.trim(), "forged")).unwrap();
    assert_eq!(token(&client), "forged\n");
    client.run("reverse-sms list").expect_code(0);
    assert_ne!(token(&client), "forged\n", "a rejected token is replaced");

    fs::write(&file, "not JSON").unwrap();
    client.run("reverse-sms list").expect_code(0);

    let whole = client.json("token --scope management");
    assert_eq!((&whole["token_type"], &whole["scope"]), (&json!("Bearer"), &json!("management")));
    assert!(whole["expires_in"].as_i64().unwrap() > 0);
}

#[test]
fn extra_ca_certificate_is_trusted() {
    let deployment = Deployment::migrated();
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    deployment.write("chain.pem", &pair.cert.pem(), 0o644);
    deployment.write("key.pem", &pair.signing_key.serialize_pem(), 0o600);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let created = deployment.run("workspace create Acme --output json").json();
    let (server, base_url) = deployment.serve();

    let client = TestClient::empty();
    let login = format!("login --base-url {base_url} --client-id {}", text(&created, "client_id"));
    let secret = text(&created, "client_secret");
    let distrusted = client.pipe(&login, secret).expect_code(5).errors();
    assert!(distrusted.contains("TLS handshake failed") && distrusted.contains("--ca-file"), "{distrusted}");
    let ca_file = deployment.path("chain.pem");
    client.pipe(&format!("{login} --ca-file {}", ca_file.display()), secret).expect_code(0);
    assert_eq!(client.json("projects list"), json!([]));
    client.run("projects create Shop --use").expect_code(0);
    client.run("reverse-sms create +990123456700").expect_code(0);
    assert_eq!(client.json("trigger")["match"], json!(true));
    server.stop();
}

#[test]
fn unreachable_server_exits_with_5() {
    let mut client = TestClient::signed_in();
    let dev = client.dev();
    client.stop();
    for line in ["reverse-sms list", "token --scope sim_swap", "login --data data", "selftest --profile default"] {
        let done = client.run(line);
        let output = format!("{}{}", done.text(), done.errors());
        assert!(output.contains("is unreachable: connection refused"), "{line}: {output}");
        assert!(output.contains("Check that the server is running"), "{line}: {output}");
        assert_eq!(done.code(), Some(if line.starts_with("selftest") { 1 } else { 5 }), "{line}");
    }
    // Another program responds at the address of the stopped server.
    let address = crate::process::address(text(&dev, "base_url")).to_owned();
    let listener = std::net::TcpListener::bind(address).unwrap();
    let other_program = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nwho").unwrap();
    });
    let refused = client.run("token --scope reverse_sms").expect_code(1).errors();
    assert!(refused.contains("not a Ringtrue response"), "{refused}");
    other_program.join().unwrap();
}
