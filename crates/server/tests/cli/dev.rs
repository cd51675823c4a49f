//! `ringtrue dev`.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use super::process::{RunningCommand, get, raw_request, ringtrue, run, token};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn dev(folder: &Path, listen: &str) -> Command {
    let mut command = ringtrue(folder);
    command.args(["dev", "--data", "data", "--listen", listen]);
    command
}

/// Starts the server, and returns the content of `dev.json` once the server is ready.
fn start(folder: &Path) -> (RunningCommand, Value) {
    let server = RunningCommand::start(&mut dev(folder, "127.0.0.1:0"));
    server.wait_for("Ringtrue is ready at http://127.0.0.1:");
    (server, read_dev_json(folder))
}

fn read_dev_json(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("data/dev.json")).expect("dev.json exists"))
        .expect("dev.json contains JSON")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn base_url(dev: &Value) -> &str {
    dev["base_url"].as_str().unwrap()
}

#[test]
fn credentials_work_and_files_are_private() {
    let folder = folder();
    let (server, dev) = start(folder.path());
    assert_eq!(token(base_url(&dev), &dev["project"], "reverse_sms"), 200);
    assert_eq!(token(base_url(&dev), &dev["workspace"], "management"), 200);

    let data = folder.path().join("data");
    assert_eq!(mode(&data), 0o700);
    for file in ["dev.json", "master.key", "ringtrue.db"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    server.stop();
}

#[test]
fn console_links_work_with_a_data_directory() {
    let folder = folder();
    let (server, dev) = start(folder.path());
    let console = |line: &str| run(ringtrue(folder.path()).arg("console").args(line.split(' ')));
    let made = console("link --data data --admin jane@example.com --output json").expect_code(0).json();
    let path = made["url"].as_str().unwrap().strip_prefix(base_url(&dev)).expect("a link of this server").to_owned();
    let (status, page) = get(base_url(&dev), &path);
    assert!(status == 200 && page.contains("jane@example.com"), "{status} {page}");
    let again = console("link --data data --account jane@example.com --output json").expect_code(0).json();
    assert_eq!(get(base_url(&dev), &path).0, 410, "a new link voids the earlier one");
    let path = again["url"].as_str().unwrap().strip_prefix(base_url(&dev)).unwrap().to_owned();
    console("disable jane@example.com --data data").expect_code(0);
    assert_eq!(get(base_url(&dev), &path).0, 410);
    let refused = console("link --data data --admin jane@example.com");
    assert!(refused.errors().contains("the account is disabled"), "{}", refused.errors());
    console("enable jane@example.com --data data").expect_code(0);
    console("demote jane@example.com --data data").expect_code(0);
    console("remove-second-factor jane@example.com --data data").expect_code(0);
    console("unlink jane@example.com --data data").expect_code(0);
    let refused = console("link --data elsewhere --admin jane@example.com");
    assert!(refused.errors().contains("elsewhere is not a data directory of `ringtrue dev`"), "{}", refused.errors());
    server.stop();
}

/// Runs commands in a shell, and returns their standard output.
fn run_in_shell(commands: &[&str]) -> String {
    let shell = Command::new("sh").args(["-c", &commands.join("\n")]).output().expect("a shell runs");
    String::from_utf8(shell.stdout).expect("the output is UTF-8")
}

/// Returns the shell command that makes API client commands keep their profiles in the folder.
fn config_home(folder: &Path) -> String {
    format!("export XDG_CONFIG_HOME={}/config", folder.display())
}

fn header<'r>(response: &'r str, name: &str) -> &'r str {
    let mut lines = response.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(": "));
    let found = lines.find(|(given, _)| given.eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("no header {name}: {response}")).1
}

/// Opens a sign-in link. Returns the path to which it redirects, and the cookie that it sets.
fn open_link(base_url: &str, link: &str) -> (String, String) {
    let path = link.strip_prefix(base_url).expect("a link of this server");
    let response = raw_request(base_url, &format!("GET {path} HTTP/1.1"), "");
    (header(&response, "location").to_owned(), header(&response, "set-cookie").to_owned())
}

/// Reads the sign-in link from the output of a starting server.
fn console_link(server: &RunningCommand) -> String {
    server.wait_for("  Console ").split_whitespace().last().unwrap().to_owned()
}

/// Returns the shell commands in an element of a page. `start` is the start of the element.
fn commands(page: &str, start: &str) -> String {
    let (_, rest) = page.split_once(start).unwrap_or_else(|| panic!("no {start}: {page}"));
    let text = rest.split("</code>").next().unwrap();
    let characters = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    characters.iter().fold(text.to_owned(), |text, (escaped, character)| text.replace(escaped, character))
}

/// The page *Getting started* of the demo project.
struct GettingStarted(String);

impl GettingStarted {
    /// Opens the page on the tab of a tool, or on the first tab.
    fn open(base_url: &str, link: &str, tool: Option<&str>) -> Self {
        let (path, cookie) = open_link(base_url, link);
        assert!(path.ends_with("/getting-started"), "{path}");
        let cookie = cookie.split(';').next().unwrap();
        let query = tool.map(|tool| format!("?with={tool}")).unwrap_or_default();
        GettingStarted(raw_request(base_url, &format!("GET {path}{query} HTTP/1.1\r\ncookie: {cookie}"), ""))
    }

    fn commands(&self, id: &str) -> String {
        commands(&self.0, &format!("<code id=\"{id}-commands\">"))
    }

    /// Runs the setup commands of the page, then the commands with this id.
    fn run(&self, id: &str) -> String {
        run_in_shell(&[&self.commands("setup"), &self.commands(id)])
    }
}

fn secrets(dev: &Value) -> [&str; 2] {
    ["workspace", "project"].map(|owner| dev[owner]["client_secret"].as_str().unwrap())
}

#[test]
fn banner_is_short_and_has_no_secrets() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let lines = server.lines_until("Ctrl+C");
    // With the empty line that follows, the banner has 12 lines at most.
    assert!(lines.len() < 12, "{lines:#?}");
    let text = lines.join("\n");
    let dev = read_dev_json(folder.path());
    assert!(secrets(&dev).iter().all(|secret| !text.contains(secret)), "{text}");
    let base_url = base_url(&dev);
    for part in [
        &format!("Ringtrue is ready at {base_url}"),
        &format!("{base_url}/console/link?token="),
        &format!("{base_url}/v1"),
        &format!("{base_url}/docs"),
        "/data/dev.json",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }

    let example = lines.iter().find_map(|line| line.strip_prefix("  Try it ")).expect("a command to try");
    let output = run_in_shell(&[&config_home(folder.path()), example]);
    assert!(output.contains("COMPLETED"), "{output}");
    let listen = lines.iter().find_map(|line| line.strip_prefix("  Callbacks ")).expect("a command").trim();
    let binary = fs::canonicalize(env!("CARGO_BIN_EXE_ringtrue")).unwrap();
    assert!(listen.starts_with(binary.to_str().unwrap()) && listen.ends_with("/data"), "{listen}");
    server.stop();
}

#[test]
fn sign_in_link_is_renewed_by_the_command_of_the_page() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let link = console_link(&server);
    let printed = server.wait_for("for another link: ");
    let dev = read_dev_json(folder.path());
    let (path, cookie) = open_link(base_url(&dev), &link);
    assert!(path.ends_with(&format!("/{}/getting-started", dev["project"]["project_id"].as_str().unwrap())), "{path}");
    assert!(cookie.contains("; Max-Age=604800"), "the session survives a restart of the browser: {cookie}");

    let (status, used) = get(base_url(&dev), link.strip_prefix(base_url(&dev)).unwrap());
    assert_eq!(status, 410, "{used}");
    let (_, sign_in) = get(base_url(&dev), "/console/sign-in");
    for page in [used, sign_in] {
        let command = commands(&page, "aria-label=\"Command\"><code id=\"command\">");
        assert!(printed.contains(&command), "{command}");
        let output = run_in_shell(&[&format!("{command} --output json")]);
        let made: Value = serde_json::from_str(&output).expect("JSON");
        assert_eq!(made["email"], "dev@localhost");
        assert_eq!(open_link(base_url(&dev), made["url"].as_str().unwrap()).0, path);
    }
    let refused = run(ringtrue(folder.path()).args(["console", "link"])).expect_code(2);
    assert!(refused.errors().contains("for `ringtrue dev`, --data ringtrue-data"), "{}", refused.errors());
    server.stop();
}

#[test]
fn doctor_diagnoses_the_data_directory() {
    let folder = folder();
    let (server, dev) = start(folder.path());
    let text = run(ringtrue(folder.path()).args(["doctor", "--data", "data"])).expect_code(0).text();
    let address = base_url(&dev).strip_prefix("http://").unwrap();
    for part in [
        "✓ configuration: `ringtrue dev` in data",
        "✓ keys: ",
        &format!("✓ http.listen: Ringtrue is already listening on {address}"),
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let refused = run(ringtrue(folder.path()).args(["doctor", "--data", "elsewhere"])).expect_code(1);
    assert!(refused.errors().contains("is not a data directory"), "{}", refused.errors());
    server.stop();
}

#[test]
fn commands_of_the_page_run_a_check_with_callback() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let link = console_link(&server);
    let dev = read_dev_json(folder.path());
    let page = GettingStarted::open(base_url(&dev), &link, Some("curl"));
    assert!(secrets(&dev).iter().all(|secret| !page.0.contains(secret)));
    assert!(page.commands("listen").ends_with("/data"), "{}", page.commands("listen"));

    // Uses a free port, because the default port of `listen` may be in use.
    let mut listen = ringtrue(folder.path());
    let receiver = RunningCommand::start(listen.args(["listen", "--data", "data", "--listen", "127.0.0.1:0"]));
    let url = receiver.wait_for("callback_url").split_whitespace().last().unwrap().to_owned();
    let check = page.commands("reverse_sms");
    assert!(check.contains("http://127.0.0.1:9099/callbacks"), "{check}");
    let check = check.replace("http://127.0.0.1:9099/callbacks", &url);

    let response = run_in_shell(&[&page.commands("setup"), &check]);
    assert!(response.contains("\"COMPLETED\"") && response.contains("\"match\":true"), "{response}");
    for text in ["  reverse_sms  attempt 1", "status     COMPLETED", "match      true", "signature  valid (key "] {
        receiver.wait_for(text);
    }
    receiver.stop();

    let mut erase = ringtrue(folder.path());
    erase.args(["erase", "--number", "+990123456704", "--output", "json"]);
    erase.env("RINGTRUE_STORE__URL", "sqlite:data/ringtrue.db");
    erase.env("RINGTRUE_KEYS__MASTER_KEY_FILE", "data/master.key");
    let receipt = run(&mut erase).json();
    assert_eq!((&receipt["checks"], &receipt["callbacks"]), (&1.into(), &1.into()), "{receipt}");
    let again = run(&mut erase).json();
    assert_eq!((&again["checks"], &again["callbacks"]), (&0.into(), &0.into()), "{again}");
    server.stop();
}

#[test]
fn commands_of_the_page_use_all_products_and_the_management_api() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let link = console_link(&server);
    let dev = read_dev_json(folder.path());
    let page = GettingStarted::open(base_url(&dev), &link, Some("curl"));
    for (id, parts) in [
        ("verification", ["\"ACCEPTED\"", "\"verification_id\":"]),
        ("result", ["\"COMPLETED\"", "\"match\":true"]),
        ("secure_sna", ["\"COMPLETED\"", "\"match\":true"]),
        ("discovery", ["\"COMPLETED\"", "+990123456708"]),
        ("sim_swap", ["\"COMPLETED\"", "\"check_id\":"]),
        ("eligibility", ["reverse_sms", "secure_sna"]),
        ("management", ["\"First project\"", "\"sandbox\""]),
    ] {
        let response = page.run(id);
        assert!(parts.iter().all(|part| response.contains(part)), "{id}: {response}\n{}", page.commands(id));
    }
    let verification = page.run("verification");
    assert!(verification.lines().next().unwrap().starts_with(base_url(&dev)), "the URL of the page: {verification}");
    server.stop();
}

#[test]
fn client_commands_of_the_page_work() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let link = console_link(&server);
    let dev = read_dev_json(folder.path());
    let page = GettingStarted::open(base_url(&dev), &link, None);
    let output = run_in_shell(&[&config_home(folder.path()), &page.commands("client")]);
    assert!(output.contains("BASE URL") && output.contains("ACCEPTED"), "{output}");
    assert_eq!(output.matches("COMPLETED").count(), 2, "{output}");
    assert!(page.commands("listen").ends_with("/data"), "{}", page.commands("listen"));
    let output = run_in_shell(&[&config_home(folder.path()), &page.commands("products")]);
    // The completed checks are those of Secure SNA, Discovery and SIM Swap.
    assert_eq!(output.matches("COMPLETED").count(), 3, "{output}");
    assert!(output.contains("+990123456742") && output.contains("reverse_sms"), "{output}");
    let version = run_in_shell(&[&page.commands("install")]);
    assert!(version.starts_with("ringtrue "), "{version}");
    server.stop();
}

#[test]
fn every_tab_of_the_page_sets_the_variables_of_the_credential() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let link = console_link(&server);
    let dev = read_dev_json(folder.path());
    let (path, cookie) = open_link(base_url(&dev), &link);
    let cookie = cookie.split(';').next().unwrap();
    for tool in ["command-line", "curl", "node", "python", "go"] {
        let request = format!("GET {path}?with={tool} HTTP/1.1\r\ncookie: {cookie}");
        let page = GettingStarted(raw_request(base_url(&dev), &request, ""));
        assert!(secrets(&dev).iter().all(|secret| !page.0.contains(secret)));
        let print = "printf '%s\n' \"$RINGTRUE_URL\" \"$RINGTRUE_CLIENT_ID\" \"$RINGTRUE_CLIENT_SECRET\"";
        let output = run_in_shell(&[&page.commands("setup"), print]);
        let project = &dev["project"];
        let expected =
            [base_url(&dev), project["client_id"].as_str().unwrap(), project["client_secret"].as_str().unwrap()];
        assert_eq!(output.lines().collect::<Vec<_>>(), expected, "{tool}");
    }
    server.stop();
}

#[test]
fn root_links_to_the_console_and_the_reference() {
    let folder = folder();
    let (server, dev) = start(folder.path());
    let (status, page) = get(base_url(&dev), "/");
    assert_eq!(status, 200, "{page}");
    for part in ["href=\"/console\"", "href=\"/docs\"", "It is a development server"] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
    server.stop();
}

#[test]
fn restart_keeps_the_credentials() {
    let folder = folder();
    let (server, first) = start(folder.path());
    server.stop();
    let (server, second) = start(folder.path());
    assert_eq!((&first["workspace"], &first["project"]), (&second["workspace"], &second["project"]));
    assert_eq!(token(base_url(&second), &second["project"], "reverse_sms"), 200);
    server.stop();
}

#[test]
fn invalid_credentials_are_replaced_for_the_same_project() {
    let folder = folder();
    let (server, first) = start(folder.path());
    server.stop();
    let mut altered = first.clone();
    altered["workspace"]["client_secret"] = "rts_wrong".into();
    altered["project"]["client_id"] = "prj_unknown".into();
    let cases = [altered.to_string(), "not JSON".to_owned(), "{}".to_owned()];
    for text in cases {
        fs::write(folder.path().join("data/dev.json"), text).unwrap();
        let (server, next) = start(folder.path());
        assert_eq!(next["workspace"]["workspace_id"], first["workspace"]["workspace_id"]);
        assert_eq!(next["project"]["project_id"], first["project"]["project_id"]);
        assert_ne!(next["workspace"]["client_id"], first["workspace"]["client_id"]);
        assert_ne!(next["project"]["client_id"], first["project"]["client_id"]);
        assert_eq!(token(base_url(&next), &next["project"], "sim_swap"), 200);
        assert_eq!(token(base_url(&next), &next["workspace"], "management"), 200);
        server.stop();
    }
}

#[test]
fn data_directory_is_locked() {
    let folder = folder();
    let (server, first) = start(folder.path());
    let second = run(&mut dev(folder.path(), "127.0.0.1:0")).expect_code(1);
    assert!(second.errors().contains("another `ringtrue dev` is using "), "{}", second.errors());
    assert_eq!(read_dev_json(folder.path()), first, "the first server is still ready");
    assert_eq!(token(base_url(&first), &first["project"], "reverse_sms"), 200);
    server.stop();
}

#[test]
fn failed_start_leaves_no_ready_file_and_keeps_credentials() {
    let folder = folder();
    let (server, first) = start(folder.path());
    server.stop();

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let failed = run(&mut dev(folder.path(), &taken.local_addr().unwrap().to_string())).expect_code(1);
    assert!(failed.errors().contains("--listen 127.0.0.1:0"), "{}", failed.errors());
    assert!(!folder.path().join("data/dev.json").exists());

    let (server, second) = start(folder.path());
    assert_eq!(second["project"], first["project"]);
    server.stop();
}

#[test]
fn restart_after_kill_keeps_credentials() {
    let folder = folder();
    let (mut server, first) = start(folder.path());
    server.signal("KILL");
    server.wait_for_exit();
    let (server, second) = start(folder.path());
    assert_eq!(second["project"], first["project"]);
    server.stop();
}

#[test]
fn missing_master_key_is_reported() {
    let folder = folder();
    let (server, _) = start(folder.path());
    server.stop();
    fs::remove_file(folder.path().join("data/master.key")).unwrap();
    let refused = run(&mut dev(folder.path(), "127.0.0.1:0")).expect_code(1);
    assert!(refused.errors().contains("the database requires it"), "{}", refused.errors());
    assert!(!folder.path().join("data/master.key").exists());
}

#[test]
fn shared_directory_with_other_files_is_rejected() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(data.join("letter.txt"), "").unwrap();
    let refused = run(&mut dev(folder.path(), "127.0.0.1:0")).expect_code(1);
    assert!(refused.errors().contains("contains files of other programs"), "{}", refused.errors());
    assert_eq!(mode(&data), 0o755);

    fs::remove_file(data.join("letter.txt")).unwrap();
    let (server, _) = start(folder.path());
    assert_eq!(mode(&data), 0o700, "an empty directory is made private");
    server.stop();
}

#[test]
fn dev_ignores_settings_for_serve() {
    let folder = folder();
    let mut command = dev(folder.path(), "127.0.0.1:0");
    command.env("RINGTRUE_STORE__URL", "postgres://u:p@127.0.0.1:1/production").env("RINGTRUE_LOG", "debug");
    fs::write(folder.path().join("ringtrue.toml"), "this is not read").unwrap();
    let server = RunningCommand::start(&mut command);
    server.wait_for("Ringtrue is ready");
    server.stop();

    let refused = run(dev(folder.path(), "127.0.0.1:0").args(["--config", "ringtrue.toml"])).expect_code(2);
    assert!(refused.errors().contains("`dev` does not read a configuration file"), "{}", refused.errors());
}
