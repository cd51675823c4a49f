//! Profiles and tokens: what is kept, and what is never shown.

use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{World, text};
use crate::setup::Deployment;

#[test]
fn a_profile_of_dev_is_kept_for_its_owner_only() {
    let world = World::start();
    let dev = world.dev();
    let login = world.run("login --data data --output json").expect_code(0);
    let secrets = [&dev["project"], &dev["workspace"]].map(|access| text(access, "client_secret").to_owned());
    for secret in &secrets {
        assert!(!login.text().contains(secret) && !login.errors().contains(secret), "no secret is shown");
    }
    let profile: Value = serde_json::from_str(&login.text()).unwrap();
    assert_eq!(profile["base_url"], dev["base_url"]);
    assert_eq!(profile["workspace_id"], dev["workspace"]["workspace_id"]);
    assert_eq!(world.json("profiles"), json!([profile]));

    world.run("token --scope reverse_sms").expect_code(0);
    world.run("reverse-sms create +990123456700").expect_code(0);
    for folder in ["", "/profiles", "/tokens", "/errands"] {
        assert_eq!(world.mode(&format!("config/ringtrue{folder}")), 0o700, "{folder}");
    }
    for file in ["profiles", "tokens", "errands"] {
        assert_eq!(world.mode(&format!("config/ringtrue/{file}/default.json")), 0o600, "{file}");
    }

    world.run("logout").expect_code(0);
    for file in ["profiles", "tokens", "errands"] {
        assert!(!world.path(&format!("config/ringtrue/{file}/default.json")).exists(), "{file}");
    }
    world.run("logout").expect_code(6);
}

#[test]
fn a_secret_comes_from_standard_input_or_the_environment() {
    let world = World::start();
    let dev = world.dev();
    let login = |owner: &str| {
        format!("login --base-url {} --client-id {}", text(&dev, "base_url"), text(&dev[owner], "client_id"))
    };
    let secret = |owner: &str| text(&dev[owner], "client_secret").to_owned();

    // One after the other, into the same profile.
    world.pipe(&login("project"), &format!("{}\n", secret("project"))).expect_code(0);
    let lacking = world.run("projects list").expect_code(6).errors();
    assert!(lacking.contains("this needs a workspace's credential"), "{lacking}");
    let mut command = world.command(&login("workspace"));
    command.env("RINGTRUE_CLIENT_SECRET", secret("workspace"));
    crate::process::run(&mut command).expect_code(0);
    world.run("projects list").expect_code(0);
    world.run("reverse-sms list").expect_code(0);
    let profile = world.json("profiles");
    assert_eq!(profile[0]["project_client_id"], dev["project"]["client_id"]);
    assert_eq!(profile[0]["workspace_client_id"], dev["workspace"]["client_id"]);
    assert_eq!(profile[0]["workspace_id"], dev["workspace"]["workspace_id"]);

    let nothing = world.run(&login("project")).expect_code(1).errors();
    assert!(nothing.contains("there is no client secret"), "{nothing}");
    let with_path = world.run(&format!("login --base-url {}/v1 --client-id x", text(&dev, "base_url")));
    assert!(with_path.expect_code(1).errors().contains("more than the address of a server"));
}

/// Puts a command on a terminal, answers its question, and gives all that is seen there.
fn on_a_terminal(world: &World, line: &str, question: &str, answer: &str) -> String {
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_ringtrue"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_CONFIG_HOME", world.path("config"));
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script runs");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = vec![];
    while !String::from_utf8_lossy(&seen).contains(question) {
        let mut byte = [0];
        screen.read_exact(&mut byte).expect("the question comes");
        seen.extend(byte);
    }
    keys.write_all(answer.as_bytes()).unwrap();
    screen.read_to_end(&mut seen).unwrap();
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&seen));
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn a_secret_that_is_typed_is_not_seen() {
    let world = World::start();
    let dev = world.dev();
    let (id, secret) = (text(&dev["project"], "client_id"), text(&dev["project"], "client_secret"));
    let login = format!("login --base-url {} --client-id {id}", text(&dev, "base_url"));
    let seen = on_a_terminal(&world, &login, &format!("Client secret of {id}: "), &format!("{secret}\n"));
    assert!(seen.contains("BASE URL") && !seen.contains(secret), "{seen}");
    world.run("reverse-sms list").expect_code(0);
}

#[test]
fn a_wrong_secret_is_refused_and_not_kept() {
    let world = World::start();
    let dev = world.dev();
    for (id, secret) in [(text(&dev["project"], "client_id"), "rts_wrong"), ("nobody", "rts_wrong"), ("a:b", "ü%41")] {
        let login = format!("login --base-url {} --client-id {id}", text(&dev, "base_url"));
        let refused = world.pipe(&login, secret).expect_code(6).errors();
        assert!(refused.contains("/errors/") && !refused.contains(secret), "{refused}");
    }
    assert_eq!(world.json("profiles"), json!([]));
}

#[test]
fn an_unknown_profile_is_named_with_those_that_there_are() {
    let world = World::empty();
    let nothing = world.run("reverse-sms list").expect_code(6).errors();
    assert!(nothing.contains("no profile `default`") && nothing.contains("ringtrue login"), "{nothing}");

    let world = World::start();
    world.run("login --data data --profile mine").expect_code(0);
    let unknown = world.run("token --scope discovery --profile other").expect_code(6).errors();
    assert!(unknown.contains("no profile `other`") && unknown.contains("There are: mine."), "{unknown}");
    world.run("token --scope discovery --profile mine").expect_code(0);
    let mut command = world.command("token --scope discovery");
    crate::process::run(command.env("RINGTRUE_PROFILE", "mine")).expect_code(0);
    let mut command = world.command("token --scope discovery");
    crate::process::run(command.env("RINGTRUE_PROFILE", "../mine")).expect_code(1);
}

#[test]
fn a_file_that_others_can_read_is_not_used() {
    let world = World::signed_in();
    let file = world.path("config/ringtrue/profiles/default.json");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let refused = world.run("reverse-sms list").expect_code(1).errors();
    assert!(refused.contains("mode 0644") && refused.contains("chmod 600"), "{refused}");
}

#[test]
fn tokens_are_used_again_until_the_server_refuses_them() {
    let world = World::signed_in();
    let token = |world: &World| world.run("token --scope reverse_sms").expect_code(0).text();
    let first = token(&world);
    assert_eq!(token(&world), first, "a token lasts");
    assert_ne!(world.run("token --scope discovery").text(), first, "one for each scope");

    let file = world.path("config/ringtrue/tokens/default.json");
    let kept = fs::read_to_string(&file).unwrap();
    fs::write(&file, kept.replace(first.trim(), "forged")).unwrap();
    assert_eq!(token(&world), "forged\n");
    world.run("reverse-sms list").expect_code(0);
    assert_ne!(token(&world), "forged\n", "a token that is refused is replaced");

    fs::write(&file, "not JSON").unwrap();
    world.run("reverse-sms list").expect_code(0);

    let whole = world.json("token --scope management");
    assert_eq!((&whole["token_type"], &whole["scope"]), (&json!("Bearer"), &json!("management")));
    assert!(whole["expires_in"].as_i64().unwrap() > 0);
}

#[test]
fn a_certificate_of_ones_own_can_be_trusted() {
    let deployment = Deployment::migrated();
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    deployment.write("chain.pem", &pair.cert.pem(), 0o644);
    deployment.write("key.pem", &pair.signing_key.serialize_pem(), 0o600);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let created = deployment.run("workspace create Acme --output json").json();
    let (server, base_url) = deployment.serve();

    let world = World::empty();
    let login = format!("login --base-url {base_url} --client-id {}", text(&created, "client_id"));
    let secret = text(&created, "client_secret");
    let distrusted = world.pipe(&login, secret).expect_code(5).errors();
    assert!(distrusted.contains("TLS failed") && distrusted.contains("--ca-file"), "{distrusted}");
    let ca_file = deployment.path("chain.pem");
    world.pipe(&format!("{login} --ca-file {}", ca_file.display()), secret).expect_code(0);
    assert_eq!(world.json("projects list"), json!([]));
    world.run("projects create Shop --use").expect_code(0);
    world.run("reverse-sms create +990123456700").expect_code(0);
    assert_eq!(world.json("trigger")["match"], json!(true));
    server.stop();
}

#[test]
fn a_server_that_is_down_ends_with_5_and_says_so() {
    let mut world = World::signed_in();
    let dev = world.dev();
    world.stop();
    for line in ["reverse-sms list", "token --scope sim_swap", "login --data data", "selftest --profile default"] {
        let done = world.run(line);
        let said = format!("{}{}", done.text(), done.errors());
        assert!(said.contains("does not answer: the connection was refused"), "{line}: {said}");
        assert!(said.contains("Is the server up"), "{line}: {said}");
        assert_eq!(done.code(), Some(if line.starts_with("selftest") { 1 } else { 5 }), "{line}");
    }
    // Whoever answers there now is not Ringtrue.
    let address = crate::process::address(text(&dev, "base_url")).to_owned();
    let listener = std::net::TcpListener::bind(address).unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nwho").unwrap();
    });
    let refused = world.run("token --scope reverse_sms").expect_code(1).errors();
    assert!(refused.contains("this is not how Ringtrue answers"), "{refused}");
    stranger.join().unwrap();
}
