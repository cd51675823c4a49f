use std::fmt::Write as _;

use jiff::Timestamp;
use ringtrue_domain::{
    search::{Field, FieldKind, FieldTest, Filter, InstantTest, Pattern, PatternPiece, SetTest, TextTest, parse},
    tenancy::{CredentialOwner, Mode, Project, WorkspaceId},
};
use ringtrue_engine::ports::{combined::Store, store::StoreError};

use crate::{fixture::StoreFixture, sample};

static FIELDS: [Field; 6] = [
    Field { name: "project_id", kind: FieldKind::Identifier },
    Field { name: "name", kind: FieldKind::Text },
    Field { name: "mode", kind: FieldKind::Keyword(&["sandbox", "live"]) },
    Field { name: "disabled", kind: FieldKind::Boolean },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "updated_at", kind: FieldKind::Instant },
];

static UNKNOWN: [Field; 1] = [Field { name: "colour", kind: FieldKind::Boolean }];

const NAMES: [&str; 10] =
    ["Shop", "shop", "Shop 50%", "Shop 500", "Sh_p", "back\\slash", "Bücher", "it's; \"quoted\"", "a*b", "*"];

/// Stores projects that differ in every filter field.
async fn projects(store: &dyn Store, workspace: WorkspaceId) -> Vec<Project> {
    let mut projects = Vec::new();
    for (number, name) in (0..).zip(NAMES) {
        let project = Project {
            mode: if number % 2 == 0 { Mode::Sandbox } else { Mode::Live },
            disabled: number % 3 == 0,
            created_at: sample::later(number),
            updated_at: sample::later(number / 2 + 100),
            ..sample::project(workspace, name)
        };
        let credential = sample::credential(CredentialOwner::Project(workspace, project.id));
        store.create_project(&project, &credential, &[], None, 1_000).await.unwrap();
        projects.push(project);
    }
    projects.reverse();
    projects
}

async fn names_found(store: &dyn Store, workspace: WorkspaceId, text: &str) -> Vec<String> {
    let filter = parse(text, &FIELDS).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found = store.list_projects(workspace, sample::first_100(), Some(&filter)).await.unwrap();
    assert_eq!(found.total_items, found.items.len() as u64);
    found.items.iter().map(|project| project.name.to_string()).collect()
}

pub async fn filters_select_matching_projects(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let stored = projects(store, acme.id).await;
    projects(store, other.id).await;
    for (text, expected) in [
        ("name==Shop", vec!["Shop"]),
        ("name=in=(Shop,shop,nobody)", vec!["shop", "Shop"]),
        ("name==Sh_p", vec!["Sh_p"]),
        ("name=='Shop 50%'", vec!["Shop 50%"]),
        ("name=='Shop 50*'", vec!["Shop 500", "Shop 50%"]),
        ("name==*%", vec!["Shop 50%"]),
        ("name==*_*", vec!["Sh_p"]),
        ("name=='*\\\\*'", vec!["back\\slash"]),
        ("name=='a\\*b'", vec!["a*b"]),
        ("name=in=('*')", vec!["*"]),
        ("name==*ü*", vec!["Bücher"]),
        ("name==\"*'s; \\\"*\"", vec!["it's; \"quoted\""]),
        ("created_at=lt=2026-11-15T02:30:01.123Z", vec!["Shop"]),
        ("created_at=le=2026-11-15T02:30:01.123Z", vec!["shop", "Shop"]),
        ("created_at=lt=2026-11-15T02:30:01.1231Z", vec!["shop", "Shop"]),
        ("created_at=gt=2026-11-15T02:30:09.122999Z", vec!["*"]),
        ("created_at=ge=2026-11-15T02:30:09.1231Z", vec![]),
        ("created_at==2026-11-15T03:30:00.123+01:00", vec!["Shop"]),
        ("created_at==2026-11-15T02:30:00.1230001Z", vec![]),
        // Text is compared by code point: upper case sorts before lower case, and `ü` after `z`.
        ("name=lt=Shop", vec!["*", "Bücher", "Sh_p"]),
        ("name=gt=a", vec!["a*b", "it's; \"quoted\"", "back\\slash", "shop"]),
        ("name=ge='Shop 50%';name=le='Shop 500'", vec!["Shop 500", "Shop 50%"]),
        ("name=gt=Bz;name=lt=C", vec!["Bücher"]),
        ("name<='*'", vec!["*"]),
        ("mode=lt=m;disabled==true", vec!["*", "Shop 500"]),
        ("mode=gt=z", vec![]),
        ("mode==live;disabled==true", vec!["*", "Shop 500"]),
        ("name==Shop,name==shop;mode==sandbox", vec!["Shop"]),
        ("(name==Shop,name==shop);mode==live", vec!["shop"]),
    ] {
        assert_eq!(names_found(store, acme.id, text).await, expected, "{text}");
    }
    let first = &stored[stored.len() - 1];
    assert_eq!(names_found(store, acme.id, &format!("project_id=={}", first.id)).await, ["Shop"]);
    assert_eq!(names_found(store, acme.id, &format!("project_id!={}", first.id)).await.len(), NAMES.len() - 1);
    assert_eq!(names_found(store, acme.id, "created_at!=2026-11-15T02:30:00.1230001Z").await.len(), NAMES.len());
}

pub async fn patterns_are_case_sensitive(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    projects(store, acme.id).await;
    assert_eq!(names_found(store, acme.id, "name==s*").await, ["shop"]);
    assert_eq!(names_found(store, acme.id, "name==*HOP").await, [] as [&str; 0]);
    assert_eq!(names_found(store, acme.id, "name!=S*;name!=b*;name!=*u*").await, ["*", "a*b", "Bücher", "shop"]);
}

pub async fn filtered_page_has_the_total(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    projects(store, acme.id).await;
    let filter = parse("mode==live", &FIELDS).unwrap();
    let listed = store.list_projects(acme.id, sample::page(2, 3), Some(&filter)).await.unwrap();
    assert_eq!((listed.items.len(), listed.total_items), (1, 5));

    let filter = parse("colour==true", &UNKNOWN).unwrap();
    let refused = store.list_projects(acme.id, sample::first_100(), Some(&filter)).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

pub async fn filters_match_an_evaluation_in_memory(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let stored = projects(store, acme.id).await;
    for _ in 0..300 {
        let mut random = RandomBytes(sample::random::<128>().to_vec());
        let mut text = String::new();
        random.expression(&stored, 3, &mut text);
        let filter = parse(&text, &FIELDS).unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected: Vec<_> =
            stored.iter().filter(|project| holds(&filter, project)).map(|project| project.name.to_string()).collect();
        assert_eq!(names_found(store, acme.id, &text).await, expected, "{text}");
    }
}

/// A supply of random bytes, taken from the end.
struct RandomBytes(Vec<u8>);

impl RandomBytes {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.pop().unwrap_or_default()) % bound
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn expression(&mut self, projects: &[Project], depth: usize, out: &mut String) {
        if depth == 0 || self.below(3) == 0 {
            return self.comparison(projects, out);
        }
        out.push('(');
        self.expression(projects, depth - 1, out);
        out.push(if self.below(2) == 0 { ';' } else { ',' });
        self.expression(projects, depth - 1, out);
        out.push(')');
    }

    fn comparison(&mut self, projects: &[Project], out: &mut String) {
        let project = &projects[self.below(projects.len())];
        let either = self.pick(&["==", "!="]);
        match self.below(6) {
            0 => {
                let text =
                    self.pick(&["Shop", "*h*p*", "S*", r"*\\*", "*%*", "*_*", "*0", "B?cher", r"a\*b", "*s*l*", "*"]);
                write!(out, "name{either}'{text}'").unwrap();
            }
            1 => write!(out, "name{}('Shop','Bücher','*')", self.pick(&["=in=", "=out="])).unwrap(),
            2 => write!(out, "mode{either}{}", self.pick(&["live", "sandbox"])).unwrap(),
            3 => write!(out, "disabled{either}{}", self.pick(&["true", "false"])).unwrap(),
            4 => {
                let operator = self.pick(&["<", "<=", ">", ">="]);
                write!(out, "name{operator}'{}'", self.pick(&["Shop", "Sh_", "a", "Bz", "Bücher", "*", "z"])).unwrap();
            }
            _ => {
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let offset = [0, 1, -1][self.below(3)];
                let at = project.created_at + jiff::SignedDuration::from_micros(offset);
                write!(out, "created_at{operator}{at}").unwrap();
            }
        }
    }
}

fn holds(filter: &Filter, project: &Project) -> bool {
    match filter {
        Filter::And(parts) => parts.iter().all(|part| holds(part, project)),
        Filter::Or(parts) => parts.iter().any(|part| holds(part, project)),
        Filter::Comparison { field, test } => match (field.name, test) {
            ("name", FieldTest::Text(TextTest::Set(choice))) => among(choice, &project.name.to_string()),
            ("name", FieldTest::Text(TextTest::Matches(pattern))) => matches_pattern(project.name.as_str(), pattern),
            ("name", FieldTest::Text(TextTest::DiffersFrom(pattern))) => {
                !matches_pattern(project.name.as_str(), pattern)
            }
            ("name", FieldTest::Text(TextTest::Before(text))) => project.name.as_str() < text.as_str(),
            ("name", FieldTest::Text(TextTest::NotAfter(text))) => project.name.as_str() <= text.as_str(),
            ("name", FieldTest::Text(TextTest::After(text))) => project.name.as_str() > text.as_str(),
            ("name", FieldTest::Text(TextTest::NotBefore(text))) => project.name.as_str() >= text.as_str(),
            ("mode", FieldTest::Keyword(choice)) => among(choice, &project.mode.into_str()),
            ("disabled", FieldTest::Boolean(choice)) => among(choice, &project.disabled),
            ("created_at", FieldTest::Instant(test)) => instant(test, project.created_at),
            other => panic!("{other:?}"),
        },
    }
}

fn among<T: PartialEq>(choice: &SetTest<T>, value: &T) -> bool {
    match choice {
        SetTest::OneOf(values) => values.contains(value),
        SetTest::NoneOf(values) => !values.contains(value),
    }
}

fn instant(test: &InstantTest, value: Timestamp) -> bool {
    match test {
        InstantTest::Set(choice) => among(choice, &value),
        InstantTest::Before(at) => value < *at,
        InstantTest::NotAfter(at) => value <= *at,
        InstantTest::After(at) => value > *at,
        InstantTest::NotBefore(at) => value >= *at,
    }
}

pub fn matches_pattern(text: &str, pattern: &Pattern) -> bool {
    fn matches_pieces(text: &str, pieces: &[PatternPiece]) -> bool {
        match pieces {
            [] => text.is_empty(),
            [PatternPiece::Literal(literal), rest @ ..] => {
                text.strip_prefix(&**literal).is_some_and(|text| matches_pieces(text, rest))
            }
            [PatternPiece::Anything, rest @ ..] => {
                (0..=text.len()).filter_map(|at| text.get(at..)).any(|text| matches_pieces(text, rest))
            }
        }
    }
    matches_pieces(text, pattern.pieces())
}
