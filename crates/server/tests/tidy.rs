//! The invariants of ARCHITECTURE.md that a test can hold.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Which crates may name which libraries in their manifests.
const ONLY: &[(&str, &[&str])] = &[
    ("axum", &["server", "bench"]),
    // The simulated operator is an HTTP server of its own, which the service knows by its socket only.
    ("hyper", &["server", "operators", "sandbox", "bench"]),
    ("maxminddb", &["operators", "bench"]),
    ("rusqlite", &["store"]),
    ("tokio-postgres", &["store"]),
    ("deadpool-postgres", &["store"]),
    // How passwords are kept is a rule of the service, not of a door to it.
    ("argon2", &["engine"]),
    ("clap", &["server", "bench"]),
    // Terminals are the command line's business.
    ("clap_complete", &["server"]),
    ("rustix", &["server"]),
    ("anyhow", &["server", "bench"]),
];

/// The pure core knows none of these.
const NOT_IN_DOMAIN: &[&str] = &["tokio", "serde", "serde_json", "async-trait", "aws-lc-rs", "tracing", "http"];

/// Who may depend on whom among our own crates.
const OWN_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("engine", &["domain"]),
    ("store", &["domain", "engine"]),
    ("smpp", &[]),
    ("operators", &["domain", "engine", "smpp"]),
    ("sandbox", &["smpp"]),
    ("server", &["domain", "engine", "operators", "sandbox", "store"]),
    ("fuzz", &["domain", "engine", "operators", "smpp"]),
    ("libfuzzer", &["fuzz"]),
    // samples/rust, which integrators copy: nothing of ours is in it.
    ("rust", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != "node_modules" && name != ".git" && name != "ringtrue-data" {
            found.extend(files(&path, wanted));
        } else if path.is_file() && wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn has_extension(extensions: &'static [&'static str]) -> impl Fn(&Path) -> bool {
    move |path| path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted))
}

fn rust_files() -> Vec<PathBuf> {
    files(&root(), &has_extension(&["rs"]))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The dependencies of each crate's `[dependencies]` table, tests' own left out.
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
fn libraries_stay_where_they_belong() {
    for (name, dependencies) in dependencies() {
        for (library, crates) in ONLY {
            assert!(!dependencies.contains(*library) || crates.contains(&&*name), "{name} must not know {library}");
        }
        if name == "domain" {
            for library in NOT_IN_DOMAIN {
                assert!(!dependencies.contains(*library), "domain must not know {library}");
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
    let known: BTreeSet<&str> = OWN_DEPENDENCIES.iter().map(|(name, _)| *name).chain(["bench"]).collect();
    let found: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    assert_eq!(found, known, "a new crate says here what it may depend on");
}

#[test]
fn the_map_shows_the_house_as_it_is() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = format!("{}/", entry.unwrap().file_name().to_string_lossy());
        assert!(map.contains(&name), "ARCHITECTURE.md does not show crates/{name}");
    }
    for name in ["bench/", "e2e/", "fuzz/", "scripts/", "docs/"] {
        assert!(map.contains(name), "ARCHITECTURE.md does not show {name}");
    }
    // What the map names, exists: modules as `crate::module` paths in back quotes.
    for place in map.split('`').skip(1).step_by(2).filter(|place| place.starts_with("crates/")) {
        assert!(root().join(place).exists(), "ARCHITECTURE.md names {place}, which is not there");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    // The files of a test suite are named after what they test, and their first one tells of the suite.
    for path in rust_files().into_iter().filter(|path| !path.to_string_lossy().contains("/tests/")) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} has no module documentation", shown(&path));
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Written in halves, so that this file does not find itself.
    let words = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["#[ign", "ore"].concat(), ["todo", "!("].concat()];
    for path in files(&root(), &has_extension(&["rs", "sql", "yaml", "toml", "md", "mjs", "py", "html"])) {
        let text = fs::read_to_string(&path).unwrap();
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} holds {word}", shown(&path));
        }
    }
}

#[test]
fn public_json_has_one_home() {
    for path in rust_files() {
        let place = shown(&path);
        let makes_json = fs::read_to_string(&path).unwrap().contains(&["derive(Ser", "ialize"].concat());
        // The command line's own output, rows and notes as they are stored, the claims of a token, and what is said to
        // operators and by the simulated one are no part of the API.
        let may = [
            "crates/server/src/http/",
            "crates/server/src/cli/",
            "crates/store/src/",
            "crates/engine/src/tokens",
            "crates/engine/src/callback/",
            "crates/engine/src/silent/secrets",
            "crates/operators/src/",
            "crates/sandbox/src/",
        ];
        assert!(!makes_json || may.iter().any(|home| place.starts_with(home)), "{place} serializes");
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

#[test]
fn links_between_pages_lead_somewhere() {
    for path in files(&root(), &has_extension(&["md"])) {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let target_path = path.parent().unwrap().join(target);
            assert!(target_path.exists(), "{}: {target} is not there", shown(&path));
        }
    }
}
