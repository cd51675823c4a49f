//! Commands for administrators, and shell completion.

use std::{fs, process::Command};

use serde_json::json;

use super::{
    client::TestClient,
    setup::{Deployment, MASTER_KEY, OTHER_MASTER_KEY},
};

#[test]
fn version_and_help_succeed() {
    let deployment = Deployment::new();
    let version = deployment.run("--version").expect_code(0);
    assert_eq!(version.text(), format!("ringtrue {}\n", env!("CARGO_PKG_VERSION")));
    let help = deployment.run("--help").expect_code(0).text();
    for part in [
        "\nServer:\n  dev ",
        "\nAdministration:\n  workspaces ",
        "\nAPI client:\n  login ",
        "\nExit codes:\n  0  Success\n",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

/// The program that reads the output exits first, as in `ringtrue … | head`.
#[test]
fn closed_pipe_ends_a_command_silently() {
    for arguments in [&["config", "default"][..], &["--output", "json", "config", "check"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrue"));
        let command = command.args(arguments).env("RINGTRUE_MASTER_KEY", MASTER_KEY).stdout(writer);
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
    }
}

#[test]
fn invalid_command_line_exits_with_2() {
    let deployment = Deployment::new();
    for line in ["", "serve --fast", "keys rotate", "dev --listen 0.0.0.0:8080"] {
        deployment.run(line).expect_code(2);
    }
    let refused = deployment.run("dev --listen 0.0.0.0:8080");
    assert!(refused.errors().contains("loopback address only"), "{}", refused.errors());
}

#[test]
fn config_check_lists_changed_settings() {
    let deployment = Deployment::new();
    deployment.configure("log.level = \"warn\"");
    let text = deployment.run("config check").expect_code(0).text();
    assert!(text.starts_with("The configuration is valid (ringtrue.toml)."), "{text}");

    let mut command = deployment.command("config check --output json");
    command.env("RINGTRUE_STORE__URL", "postgres://u:hunter2@db/ringtrue");
    let changed = super::process::run(&mut command).json();
    let of = |key: &str| changed.as_array().unwrap().iter().find(|changed| changed["key"] == key).cloned();
    assert_eq!(of("log.level"), Some(json!({"key": "log.level", "value": "\"warn\"", "from": "ringtrue.toml:6"})));
    assert_eq!(
        of("store.url"),
        Some(json!({
            "key": "store.url",
            "value": "\"postgres://…@db/ringtrue\"",
            "from": "environment variable RINGTRUE_STORE__URL",
        }))
    );
    assert_eq!(of("region"), None);
}

#[test]
fn invalid_configuration_exits_with_3() {
    let deployment = Deployment::new();
    deployment.configure("log.format = \"xml\"");
    let message = "ringtrue: invalid configuration: log.format (ringtrue.toml:6): found \"xml\"; allowed: \
                   \"json\" or \"pretty\"\n";
    for line in ["config check", "serve", "migrate", "workspace list", "keys list"] {
        assert_eq!(deployment.run(line).expect_code(3).errors(), message, "{line}");
    }
    let missing = deployment.run("config check --config elsewhere.toml").expect_code(3).errors();
    assert!(missing.contains("cannot read elsewhere.toml"), "{missing}");
}

#[test]
fn printed_defaults_are_a_valid_configuration() {
    let deployment = Deployment::new();
    let defaults = deployment.run("config default").expect_code(0).text();
    deployment.write("defaults.toml", &defaults, 0o644);
    deployment.run("config check --config defaults.toml").expect_code(0);
}

#[test]
fn migrate_is_idempotent() {
    let deployment = Deployment::new();
    let applied = deployment.run("migrate --output json").json();
    assert_eq!(applied["applied"][0], "0001_schema");
    assert_eq!(deployment.run("migrate --output json").json(), json!({"applied": []}));
    assert_eq!(deployment.run("migrate").text(), "sqlite:ringtrue.db is up to date.\n");
}

#[test]
fn database_without_schema_is_rejected_with_a_hint() {
    let deployment = Deployment::new();
    for line in ["serve", "workspace create Acme", "workspace list", "keys list", "keys rotate --purpose token"] {
        let errors = deployment.run(line).expect_code(4).errors();
        assert_eq!(errors, "ringtrue: sqlite:ringtrue.db: the database is empty: run `ringtrue migrate`\n", "{line}");
    }
    assert!(!deployment.path("ringtrue.db").exists(), "commands must not create the database");
}

#[test]
fn unreachable_database_exits_with_4_without_password() {
    let deployment = Deployment::new();
    let mut command = deployment.command("workspace list");
    command.env("RINGTRUE_STORE__URL", "postgres://u:hunter2@127.0.0.1:1/ringtrue");
    let errors = super::process::run(&mut command).expect_code(4).errors();
    assert!(errors.contains("127.0.0.1") && !errors.contains("hunter2"), "{errors}");
}

#[test]
fn workspaces_are_created_listed_and_limited() {
    let deployment = Deployment::migrated();
    let mut create = deployment.command("workspace create --output json");
    create.arg("Bank of Example");
    let created = super::process::run(&mut create).json();
    assert_eq!(created["name"], "Bank of Example");
    assert_eq!(created["data_residency"], "eu");
    assert!(created["client_id"].as_str().unwrap().starts_with("wsp_"));
    assert!(created["client_secret"].as_str().unwrap().starts_with("rts_"));

    let id = created["workspace_id"].as_str().unwrap();
    let limit = format!("workspace limit {id} --output json");
    let limited = deployment.run(&format!("{limit} --create 7 --token 3")).json();
    assert_eq!(limited["rate_limits"]["create"], 7);
    let limited = deployment.run(&format!("{limit} --create default")).json();
    let limits = json!({"create": null, "read": null, "eligibility": null, "management": null, "token": 3});
    assert_eq!(limited["rate_limits"], limits);

    let listed = deployment.run("workspace list --output json").json();
    assert_eq!(listed, json!([limited]));
    let table = deployment.run("workspace list").expect_code(0).text();
    assert!(table.starts_with("WORKSPACE ID ") && table.contains("Bank of Example") && table.contains("token=3"));
    assert!(!table.contains("rts_"), "the secret was shown once");
}

#[test]
fn csv_output() {
    let deployment = Deployment::new();
    assert_eq!(deployment.run("migrate --output csv").expect_code(0).text(), "applied\n0001_schema\n");
    let created = deployment.run("workspace create Bank,Ltd --output csv").expect_code(0).text();
    assert!(
        created.starts_with("workspace_id,name,data_residency,") && created.contains(",\"Bank,Ltd\",eu,"),
        "{created}"
    );
    for (line, names, rows) in [
        ("workspace list", "workspace_id,name,data_residency,created_at,rate_limits", 1),
        ("keys list", "key_id,purpose,state,published_at,active_from,retires_at,gone_at", 8),
        ("config check", "key,value,from", 5),
    ] {
        let text = deployment.run(&format!("{line} --output csv")).expect_code(0).text();
        let mut lines = text.lines();
        assert_eq!((lines.next(), lines.count()), (Some(names), rows), "{line}");
    }
}

#[test]
fn unknown_workspace_is_reported() {
    let deployment = Deployment::migrated();
    let unknown_id = "0199b0a8-0000-7000-8000-000000000000";
    for line in
        [format!("workspace limit {unknown_id} --create 1"), format!("credentials create --workspace {unknown_id}")]
    {
        assert_eq!(deployment.run(&line).expect_code(1).errors(), "ringtrue: workspace not found\n");
    }
}

#[test]
fn expiry_in_the_past_is_rejected() {
    let deployment = Deployment::migrated();
    let id = deployment.run("workspace create Acme --output json").json()["workspace_id"].as_str().unwrap().to_owned();
    let create = format!("credentials create --workspace {id}");
    let lasting = deployment.run(&format!("{create} --output json")).json();
    assert_eq!(lasting["expires_at"], json!(null));
    let ending = deployment.run(&format!("{create} --output json --expires-at 2099-01-31T00:00:00Z")).json();
    assert_eq!(ending["expires_at"], "2099-01-31T00:00:00.000Z");
    assert_ne!(lasting["client_id"], ending["client_id"]);

    let late = deployment.run(&format!("{create} --expires-at 2020-01-31T00:00:00Z")).expect_code(2).errors();
    assert!(late.contains("--expires-at is in the past"), "{late}");
}

#[test]
fn keys_are_listed_and_rotated() {
    let deployment = Deployment::migrated();
    let none = deployment.run("keys rotate --purpose callback").expect_code(1).errors();
    assert!(none.contains("there is no callback key yet"), "{none}");
    deployment.run("workspace create Acme").expect_code(0);

    let states = || {
        let keys = deployment.run("keys list --output json").json();
        let keys = keys.as_array().unwrap().iter();
        keys.map(|key| format!("{} {}", key["purpose"].as_str().unwrap(), key["state"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let first = [
        "token active",
        "callback active",
        "sandbox_callback active",
        "id_token active",
        "id_token_ec active",
        "seal active",
        "link active",
        "hash active",
    ];
    assert_eq!(states(), first);

    let next = deployment.run("keys rotate --purpose callback --output json").json();
    assert_eq!((&next["purpose"], &next["state"]), (&json!("callback"), &json!("next")));
    let mut rotated = first.to_vec();
    rotated.insert(2, "callback next");
    assert_eq!(states(), rotated);
    let again = deployment.run("keys rotate --purpose callback").expect_code(1).errors();
    assert!(again.contains("is not active yet") && again.contains("--emergency"), "{again}");

    deployment.run("keys rotate --purpose callback --emergency").expect_code(0);
    assert_eq!(states().iter().filter(|state| *state == "callback active").count(), 1);
}

#[test]
fn hash_key_is_reset_after_a_confirmation() {
    let deployment = Deployment::migrated();
    deployment.run("workspace create Acme").expect_code(0);
    let hash_key = || {
        let keys = deployment.run("keys list --output json").json();
        let keys = keys.as_array().unwrap().iter().filter(|key| key["purpose"] == "hash").cloned().collect::<Vec<_>>();
        keys.into_iter().map(|key| key["key_id"].clone()).collect::<Vec<_>>()
    };
    let before = hash_key();
    let effects = deployment.run("keys reset-hash-key").expect_code(2).errors();
    assert!(effects.contains("Open checks cannot be completed") && effects.contains("--yes"), "{effects}");
    assert_eq!(hash_key(), before);
    let reset = deployment.run("keys reset-hash-key --yes --output json").expect_code(0).json();
    assert_eq!((&reset["signed_rows"], &reset["sessions_ended"]), (&json!(1), &json!(0)));
    assert!(hash_key().len() == 1 && hash_key() != before);
    deployment.run("workspace create Other").expect_code(0);
    let doctor = deployment.run("doctor").text();
    assert!(doctor.contains("rows that grant rights: none was altered"), "{doctor}");
}

#[test]
fn wrong_exposed_or_missing_master_key_exits_with_3() {
    let deployment = Deployment::migrated();
    deployment.run("workspace create Acme").expect_code(0);
    let lines = ["workspace create Other", "keys rotate --purpose token", "serve"];

    deployment.write("master.key", OTHER_MASTER_KEY, 0o600);
    for line in lines {
        let errors = deployment.run(line).expect_code(3).errors();
        assert!(errors.contains("this database was set up with another master key"), "{line}: {errors}");
    }
    deployment.write("master.key", MASTER_KEY, 0o644);
    for line in lines {
        let errors = deployment.run(line).expect_code(3).errors();
        assert!(errors.contains("(mode 0644): run `chmod 600 master.key`"), "{line}: {errors}");
    }
    std::fs::remove_file(deployment.path("master.key")).unwrap();
    for line in lines {
        let errors = deployment.run(line).expect_code(3).errors();
        assert!(errors.contains("cannot read the master key in master.key"), "{line}: {errors}");
    }
    // Commands that only read need no master key.
    deployment.run("workspace list").expect_code(0);
    deployment.run("keys list").expect_code(0);
}

#[test]
fn package_files_are_manual_pages_and_completions() {
    let deployment = Deployment::new();
    deployment.run("package-files share --binary /opt/ringtrue").expect_code(0);
    let read = |path: &str| fs::read_to_string(deployment.path("share").join(path)).unwrap();
    for path in [
        "bash-completion/completions/ringtrue",
        "zsh/vendor-completions/_ringtrue",
        "fish/vendor_completions.d/ringtrue.fish",
    ] {
        assert!(read(path).contains("/opt/ringtrue"), "{path}");
    }
    let page = read("man/man1/ringtrue.1");
    assert!(page.contains("ringtrue\\-verify(1)") && page.contains("Exit codes"), "{page}");
    assert!(!page.contains("package"), "hidden commands have no page");
    assert!(read("man/man1/ringtrue-config-init.1").contains("master.key"));
    let help = deployment.run("--help").expect_code(0).text();
    assert!(!help.contains("package-files"), "{help}");
}

/// Completes the last word, as bash does, and returns the candidates.
fn complete(client: &TestClient, line: &str) -> Vec<String> {
    let script = client.path("completion.bash");
    fs::write(&script, client.run("completion bash").expect_code(0).text()).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let (last, count) = (words[words.len() - 1], words.len() - 1);
    let complete = format!(
        "source completion.bash && COMP_WORDS=({}) COMP_CWORD={count} && _clap_complete_ringtrue ringtrue '{last}' '' \
         && printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &complete]).current_dir(client.path("")).env_remove("RINGTRUE_PROFILE");
    let output = bash.env("XDG_CONFIG_HOME", client.path("config")).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn completion_scripts_call_the_binary() {
    let client = TestClient::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = client.run(&format!("completion {shell}")).expect_code(0).text();
        assert!(script.contains(env!("CARGO_BIN_EXE_ringtrue")), "{shell}: {script}");
        assert!(script.contains("_RINGTRUE_COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn bash_completes_commands_and_fixed_values() {
    let client = TestClient::empty();
    for (line, expected) in [
        ("ringtrue reverse", vec!["reverse-sms"]),
        ("ringtrue callbacks resend --sin", vec!["--since"]),
        ("ringtrue token --scope man", vec!["management"]),
        ("ringtrue tail --product s", vec!["secure-sna", "sim-swap"]),
        ("ringtrue keys rotate --purpose s", vec!["sandbox_callback", "seal"]),
        ("ringtrue console link --role d", vec!["developer"]),
        ("ringtrue completion ", vec!["bash", "zsh", "fish"]),
        // Projects cannot be completed without a profile, because it names the server that has them.
        ("ringtrue usage --project 0", vec![]),
    ] {
        let found = complete(&client, line);
        let found: Vec<&str> = found.iter().map(String::as_str).filter(|candidate| !candidate.is_empty()).collect();
        let is_option = |candidate: &&str| candidate.starts_with("--") && !line.ends_with("--sin");
        let found: Vec<&str> = found.into_iter().filter(|candidate| !is_option(candidate)).collect();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn bash_completes_profiles_and_projects() {
    let mut client = TestClient::start();
    client.run("login --data data --profile acme").expect_code(0);
    assert_eq!(complete(&client, "ringtrue whoami --profile a"), ["acme"]);
    let dev = client.dev();
    let project = dev["project"]["project_id"].as_str().unwrap();
    assert_eq!(complete(&client, &format!("ringtrue usage --profile acme --project {}", &project[..4])), [project]);
    assert_eq!(complete(&client, &format!("ringtrue projects --profile acme get {}", &project[..4])), [project]);
    client.stop();
    assert_eq!(complete(&client, &format!("ringtrue usage --profile acme --project {}", &project[..4])), [""]);
}

/// Returns the exit codes that a text documents. `parse` finds the code in a line.
fn documented_codes(text: &str, parse: impl Fn(&str) -> Option<&str>) -> Vec<i32> {
    text.lines().filter_map(parse).filter_map(|code| code.trim().parse().ok()).collect()
}

#[test]
fn exit_codes_are_those_of_the_help_and_the_documentation() {
    let mut client = TestClient::signed_in();
    client.stop();
    let (empty, deployment, invalid) = (TestClient::empty(), Deployment::new(), Deployment::new());
    invalid.configure("region = \"mars\"");
    let unreachable = client.run("whoami");
    assert!(
        unreachable.errors().contains("Check that the server is running, and its port."),
        "{}",
        unreachable.errors()
    );
    let codes = [
        deployment.run("--version"),
        deployment.run("doctor"),
        deployment.run("token --scope everything"),
        invalid.run("config check"),
        deployment.run("workspace list"),
        unreachable,
        empty.run("whoami"),
    ];
    let codes = codes.map(|output| output.code().unwrap());
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6]);

    let help = deployment.run("--help").expect_code(0).text();
    let help = help.split_once("\nExit codes:\n").unwrap().1;
    assert_eq!(documented_codes(help, |line| line.strip_prefix("  ")?.split("  ").next()), codes);
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md")).unwrap();
    let page = page.split_once("\n## Exit codes\n").unwrap().1;
    assert_eq!(documented_codes(page, |line| line.strip_prefix("| ")?.split('|').next()), codes);
}

#[test]
fn invalid_values_are_reported_with_the_valid_ones() {
    let deployment = Deployment::new();
    for (line, values) in [
        ("token --scope everything", "reverse_sms, secure_sna"),
        ("tail --product sms", "verification, reverse-sms, secure-sna, discovery, sim-swap"),
        ("verify +990123456700 --methods call", "secure_sna, reverse_sms"),
        ("verify +990123456700 --methods secure-sna", "secure_sna, reverse_sms"),
        ("keys rotate --purpose other", "callback"),
        ("console link --member a@example.com --role boss", "viewer, developer, owner"),
        ("open elsewhere", "console, docs, errors, openapi"),
        ("completion tcsh", "bash, zsh, fish"),
        ("callbacks resend --since 1h --status PENDING", "completed, expired, error"),
        ("trigger --fault lost", "late[=SECONDS]"),
        ("reverse-sms get nonsense", "not a UUID"),
    ] {
        let errors = deployment.run(line).expect_code(2).errors();
        assert!(errors.contains(values), "{line}: {errors}");
    }
}
