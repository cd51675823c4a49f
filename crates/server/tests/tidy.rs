//! Tests invariants that ARCHITECTURE.md states.

#![expect(clippy::unwrap_used, reason = "tests panic on failure")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Libraries, each with the only crates of this workspace that may depend on it.
const PERMITTED_CRATES: &[(&str, &[&str])] = &[
    ("axum", &["web", "api", "console", "server", "bench"]),
    // `sandbox` is here because the simulated operator is an HTTP server. The service reaches it only through its
    // socket.
    ("hyper", &["client", "server", "operators", "sandbox", "bench"]),
    ("maxminddb", &["operators", "bench"]),
    ("rusqlite", &["store"]),
    ("tokio-postgres", &["store"]),
    ("deadpool-postgres", &["store"]),
    // Passwords are hashed in the engine only.
    ("argon2", &["engine"]),
    // Only the command line uses terminals.
    ("clap", &["client", "server", "bench"]),
    ("clap_complete", &["server"]),
    ("clap_mangen", &["server"]),
    ("comfy-table", &["client"]),
    ("rpassword", &["client"]),
    ("rustix", &["client", "server"]),
    ("anyhow", &["server", "bench"]),
];

/// Libraries on which the domain must not depend.
const FORBIDDEN_IN_DOMAIN: &[&str] = &["tokio", "serde", "serde_json", "async-trait", "aws-lc-rs", "tracing", "http"];

/// Crates of this workspace on which each of our crates may depend.
const OWN_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("callback-signature", &["domain"]),
    // The API client uses HTTP and JSON, never the engine, the configuration or the database.
    ("client", &["callback-signature", "domain"]),
    ("engine", &["callback-signature", "domain"]),
    ("store", &["domain", "engine"]),
    ("smpp", &[]),
    ("operators", &["domain", "engine", "smpp"]),
    ("sandbox", &["domain", "engine", "smpp"]),
    ("verification-page", &["domain"]),
    // The API and the console depend neither on each other nor on the database. What both need is in `web`.
    ("web", &["callback-signature", "domain", "engine", "operators", "sandbox"]),
    ("api", &["callback-signature", "domain", "engine", "operators", "sandbox", "verification-page", "web"]),
    ("console", &["callback-signature", "domain", "engine", "operators", "sandbox", "verification-page", "web"]),
    ("server", &["api", "client", "console", "domain", "engine", "operators", "sandbox", "store", "web"]),
    // Other crates use it as a dev-dependency only.
    ("test-support", &["domain", "engine", "store"]),
    ("fuzz", &["callback-signature", "domain", "engine", "operators", "smpp"]),
    ("libfuzzer", &["fuzz"]),
    // samples/rust does not depend on our crates.
    ("rust", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(folder: &Path, matches: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != "node_modules" && name != ".git" && name != "ringtrue-data" {
            found.extend(files(&path, matches));
        } else if path.is_file() && matches(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn has_extension(extensions: &'static [&'static str]) -> impl Fn(&Path) -> bool {
    move |path| path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension))
}

fn rust_files() -> Vec<PathBuf> {
    files(&root(), &has_extension(&["rs"]))
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// Returns the dependencies of each crate, without dev-dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let manifests = files(&root(), &|path| path.ends_with("Cargo.toml"));
    manifests
        .into_iter()
        .filter(|path| path.parent() != Some(&root()))
        .map(|path| {
            let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            let manifest: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
            let table = manifest.get("dependencies").and_then(|table| table.as_table()).cloned().unwrap_or_default();
            (name, table.keys().cloned().collect())
        })
        .collect()
}

#[test]
fn libraries_are_used_by_permitted_crates_only() {
    for (name, dependencies) in dependencies() {
        for (library, crates) in PERMITTED_CRATES {
            assert!(
                !dependencies.contains(*library) || crates.contains(&&*name),
                "{name} must not depend on {library}"
            );
        }
        if name == "domain" {
            for library in FORBIDDEN_IN_DOMAIN {
                assert!(!dependencies.contains(*library), "domain must not depend on {library}");
            }
        }
    }
}

#[test]
fn crates_depend_inwards_only() {
    let dependencies = dependencies();
    for (name, allowed) in OWN_DEPENDENCIES {
        let own: Vec<&str> = dependencies[*name].iter().filter_map(|name| name.strip_prefix("ringtrue-")).collect();
        for dependency in own {
            assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
    for (name, dependencies) in &dependencies {
        assert!(!dependencies.contains("ringtrue-test-support"), "{name} must use test-support in tests only");
    }
    let known: BTreeSet<&str> = OWN_DEPENDENCIES.iter().map(|(name, _)| *name).chain(["bench"]).collect();
    let found: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    assert_eq!(found, known, "list the permitted dependencies of new crates here");
}

#[test]
fn architecture_map_matches_the_tree() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = format!("{}/", entry.unwrap().file_name().to_string_lossy());
        assert!(map.contains(&name), "ARCHITECTURE.md does not show crates/{name}");
    }
    for name in ["bench/", "e2e/", "fuzz/", "scripts/", "docs/"] {
        assert!(map.contains(name), "ARCHITECTURE.md does not show {name}");
    }
    // Paths in back quotes must exist.
    for path in map.split('`').skip(1).step_by(2).filter(|path| path.starts_with("crates/")) {
        assert!(root().join(path).exists(), "ARCHITECTURE.md names {path}, which does not exist");
    }
}

/// Returns the name in lower case without separators, so that `redirect session`, `redirect_session` and
/// `RedirectSession` are equal.
fn normalized(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns the names of the structs, enums, traits, modules and functions in the sources of our crates.
fn defined_names() -> BTreeSet<String> {
    let sources = files(&root().join("crates"), &has_extension(&["rs"]));
    let mut names = BTreeSet::new();
    for path in sources.into_iter().filter(|path| relative(path).contains("/src/")) {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let words = words(line);
            let pairs = words.windows(2).filter(|pair| ["struct", "enum", "trait", "mod", "fn"].contains(&pair[0]));
            names.extend(pairs.map(|pair| normalized(pair[1])));
        }
    }
    names
}

/// Returns the names of the tables that exist after all migrations.
fn table_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files(&root().join("crates/store/migrations/sqlite"), &has_extension(&["sql"])) {
        for line in fs::read_to_string(&path).unwrap().lines() {
            match *words(line) {
                ["create", "table", name, ..] => {
                    names.insert(normalized(name));
                }
                ["alter", "table", old, "rename", "to", new] => {
                    names.remove(&normalized(old));
                    names.insert(normalized(new));
                }
                ["drop", "table", name] => {
                    names.remove(&normalized(name));
                }
                _ => {}
            }
        }
    }
    names
}

#[test]
fn glossary_terms_exist_in_the_code() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.split("\n## Glossary\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let terms: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(!terms.is_empty() && terms.len() <= 12, "the glossary has {} terms; at most 12 are allowed", terms.len());
    let (defined, tables) = (defined_names(), table_names());
    for term in terms {
        let name = normalized(term);
        assert!(
            defined.contains(&name) || tables.contains(&name),
            "the code does not define the glossary term `{term}`"
        );
    }
}

/// Only one module of the engine chooses between live operators and the simulated one.
#[test]
fn use_cases_do_not_distinguish_the_sandbox() {
    let engine = root().join("crates/engine/src");
    // Exceptions: going live, the keys that sign callbacks, and the module that makes the choice.
    let allowed = ["checks/mod.rs", "context.rs", "keys/key_ring.rs", "lookups/operator_access/mod.rs"];
    let allowed = allowed.map(|name| engine.join(name));
    for path in files(&engine, &has_extension(&["rs"])).into_iter().filter(|path| !allowed.contains(path)) {
        let text = fs::read_to_string(&path).unwrap();
        let code = if path.ends_with("tests.rs") { "" } else { text.split("#[cfg(test)]").next().unwrap_or_default() };
        assert!(!code.contains("Mode::Sandbox"), "{} must not distinguish sandbox projects", relative(&path));
    }
}

#[test]
fn every_file_has_module_documentation() {
    // Test files are exempt, because their names state what they test.
    for path in rust_files().into_iter().filter(|path| !path.to_string_lossy().contains("/tests/")) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} has no module documentation", relative(&path));
    }
}

/// `make test` does not run examples in documentation: rustdoc would compile each crate once more to find none.
#[test]
fn documentation_has_no_code_that_is_not_tested() {
    for path in rust_files() {
        let text = fs::read_to_string(&path).unwrap();
        let comments = text
            .lines()
            .map(str::trim_start)
            .filter_map(|line| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start));
        for block in comments.filter_map(|line| line.strip_prefix("```")).step_by(2) {
            assert_eq!(block, "text", "{}: write a test instead of an example", relative(&path));
        }
    }
}

#[test]
fn no_unfinished_markers() {
    // The words are split, so that this file does not match itself.
    let words = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["#[ign", "ore"].concat(), ["todo", "!("].concat()];
    for path in files(&root(), &has_extension(&["rs", "sql", "yaml", "toml", "md", "mjs", "py", "html"])) {
        let text = fs::read_to_string(&path).unwrap();
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} contains {word}", relative(&path));
        }
    }
}

#[test]
fn public_json_is_defined_in_its_modules_only() {
    for path in rust_files() {
        let file = relative(&path);
        let defines_json = fs::read_to_string(&path).unwrap().contains(&["derive(Ser", "ialize"].concat());
        // Command line output, cookies and scripts of the console, stored rows, token claims, and messages to and from
        // operators are not part of the API.
        let permitted = [
            "crates/api/src/",
            "crates/web/src/camara_error.rs",
            "crates/web/src/problem.rs",
            "crates/web/src/response.rs",
            "crates/console/src/",
            "crates/server/src/cli/",
            "crates/client/src/",
            "crates/store/src/",
            "crates/engine/src/tokens",
            "crates/engine/src/camara/sealed",
            "crates/engine/src/courier/",
            "crates/engine/src/sign_in/sealed",
            "crates/engine/src/silent/secrets",
            "crates/engine/src/verifications/input",
            "crates/operators/src/",
            "crates/sandbox/src/",
        ];
        assert!(
            !defines_json || permitted.iter().any(|module| file.starts_with(module)),
            "{file} must not define JSON"
        );
    }
}

#[test]
fn decisions_are_numbered_and_listed() {
    let folder = root().join("docs/decisions");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let pages = files(&folder, &|path| path.file_name().is_some_and(|name| name != "README.md"));
    for (position, path) in pages.iter().enumerate() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("{:04}-", position + 1)), "{name} is out of order");
        assert!(index.contains(&name), "docs/decisions/README.md does not list {name}");
    }
}

/// Returns the ids of a page's headings, as GitHub and mdBook derive them.
fn heading_ids(page: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut counts = BTreeMap::<String, usize>::new();
    let mut ids = BTreeSet::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let Some((_, title)) = line.split_once("# ").filter(|(marks, _)| !is_code && marks.chars().all(|c| c == '#'))
        else {
            continue;
        };
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let id: String = kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = counts.entry(id.clone()).or_default();
        ids.insert(if *count == 0 { id } else { format!("{id}-{count}") });
        *count += 1;
    }
    ids
}

#[test]
fn links_between_pages_resolve() {
    for path in files(&root(), &has_extension(&["md"])) {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target_path = if target.is_empty() { path.clone() } else { path.parent().unwrap().join(target) };
            assert!(target_path.exists(), "{}: link to missing {target}", relative(&path));
            if !fragment.is_empty() {
                let page = fs::read_to_string(&target_path).unwrap();
                assert!(heading_ids(&page).contains(fragment), "{}: link to missing heading {link}", relative(&path));
            }
        }
    }
}

#[test]
fn summary_lists_every_page_of_the_documentation() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for path in files(&docs, &has_extension(&["md"])) {
        let page = path.strip_prefix(&docs).unwrap().display().to_string();
        assert!(
            page == "SUMMARY.md" || summary.contains(&format!("]({page})")),
            "docs/SUMMARY.md does not list {page}"
        );
    }
}

#[test]
fn every_alert_links_to_its_runbook() {
    let rules = fs::read_to_string(root().join("deploy/prometheus/rules.yml")).unwrap();
    let runbooks = heading_ids(&fs::read_to_string(root().join("docs/monitoring.md")).unwrap());
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(!alerts.is_empty());
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        let url = alert.lines().find_map(|line| line.trim().strip_prefix("runbook_url: "));
        let heading = name.to_ascii_lowercase();
        let expected = format!("https://docs.example.com/ringtrue/docs/monitoring.html#{heading}");
        assert_eq!(url, Some(expected.as_str()), "runbook_url of {name}");
        assert!(runbooks.contains(&heading), "docs/monitoring.md has no runbook of {name}");
    }
}
