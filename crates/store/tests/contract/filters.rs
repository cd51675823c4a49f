use std::fmt::Write as _;

use jiff::Timestamp;
use ringtrue_domain::{
    search::{Choice, Field, Filter, InstantTest, Kind, Pattern, Piece, Test, TextTest, parse},
    tenancy::{CredentialOwner, Mode, Project, WorkspaceId},
};
use ringtrue_engine::ports::{Store, StoreError};

use crate::{bench::Bench, sample};

static FIELDS: [Field; 6] = [
    Field { name: "project_id", kind: Kind::Identifier },
    Field { name: "name", kind: Kind::Text },
    Field { name: "mode", kind: Kind::Keyword(&["sandbox", "live"]) },
    Field { name: "disabled", kind: Kind::Boolean },
    Field { name: "created_at", kind: Kind::Instant },
    Field { name: "updated_at", kind: Kind::Instant },
];

static UNKNOWN: [Field; 1] = [Field { name: "colour", kind: Kind::Boolean }];

const NAMES: [&str; 10] =
    ["Shop", "shop", "Shop 50%", "Shop 500", "Sh_p", "back\\slash", "Bücher", "it's; \"quoted\"", "a*b", "*"];

/// Projects that differ in everything that can be asked for.
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
    let found = store.list_projects(workspace, sample::whole(), Some(&filter)).await.unwrap();
    assert_eq!(found.total_items, found.items.len() as u64);
    found.items.iter().map(|project| project.name.to_string()).collect()
}

pub async fn filters_find_what_they_say(bench: &Bench) {
    let store = &*bench.store;
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

pub async fn patterns_tell_upper_from_lower_case(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    projects(store, acme.id).await;
    assert_eq!(names_found(store, acme.id, "name==s*").await, ["shop"]);
    assert_eq!(names_found(store, acme.id, "name==*HOP").await, [] as [&str; 0]);
    assert_eq!(names_found(store, acme.id, "name!=S*;name!=b*;name!=*u*").await, ["*", "a*b", "Bücher", "shop"]);
}

pub async fn a_page_of_a_filtered_list_knows_its_total(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    projects(store, acme.id).await;
    let filter = parse("mode==live", &FIELDS).unwrap();
    let listed = store.list_projects(acme.id, sample::page(2, 3), Some(&filter)).await.unwrap();
    assert_eq!((listed.items.len(), listed.total_items), (1, 5));

    let filter = parse("colour==true", &UNKNOWN).unwrap();
    let refused = store.list_projects(acme.id, sample::whole(), Some(&filter)).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

pub async fn filters_agree_with_an_evaluation_in_memory(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let stored = projects(store, acme.id).await;
    for _ in 0..300 {
        let mut dice = Dice(sample::random::<128>().to_vec());
        let mut text = String::new();
        dice.expression(&stored, 3, &mut text);
        let filter = parse(&text, &FIELDS).unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected: Vec<_> =
            stored.iter().filter(|project| holds(&filter, project)).map(|project| project.name.to_string()).collect();
        assert_eq!(names_found(store, acme.id, &text).await, expected, "{text}");
    }
}

/// Randomness, to be used up.
struct Dice(Vec<u8>);

impl Dice {
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
        match self.below(5) {
            0 => {
                let text =
                    self.pick(&["Shop", "*h*p*", "S*", r"*\\*", "*%*", "*_*", "*0", "B?cher", r"a\*b", "*s*l*", "*"]);
                write!(out, "name{either}'{text}'").unwrap();
            }
            1 => write!(out, "name{}('Shop','Bücher','*')", self.pick(&["=in=", "=out="])).unwrap(),
            2 => write!(out, "mode{either}{}", self.pick(&["live", "sandbox"])).unwrap(),
            3 => write!(out, "disabled{either}{}", self.pick(&["true", "false"])).unwrap(),
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
            ("name", Test::Text(TextTest::Choice(choice))) => among(choice, &project.name.to_string()),
            ("name", Test::Text(TextTest::Matches(pattern))) => has_shape(project.name.as_str(), pattern),
            ("name", Test::Text(TextTest::DiffersFrom(pattern))) => !has_shape(project.name.as_str(), pattern),
            ("mode", Test::Keyword(choice)) => among(choice, &project.mode.as_str()),
            ("disabled", Test::Boolean(choice)) => among(choice, &project.disabled),
            ("created_at", Test::Instant(test)) => instant(test, project.created_at),
            other => panic!("{other:?}"),
        },
    }
}

fn among<T: PartialEq>(choice: &Choice<T>, value: &T) -> bool {
    match choice {
        Choice::OneOf(values) => values.contains(value),
        Choice::NoneOf(values) => !values.contains(value),
    }
}

fn instant(test: &InstantTest, value: Timestamp) -> bool {
    match test {
        InstantTest::Choice(choice) => among(choice, &value),
        InstantTest::Before(at) => value < *at,
        InstantTest::NotAfter(at) => value <= *at,
        InstantTest::After(at) => value > *at,
        InstantTest::NotBefore(at) => value >= *at,
    }
}

pub fn has_shape(text: &str, pattern: &Pattern) -> bool {
    fn rest_fits(text: &str, pieces: &[Piece]) -> bool {
        match pieces {
            [] => text.is_empty(),
            [Piece::Literal(literal), rest @ ..] => {
                text.strip_prefix(&**literal).is_some_and(|text| rest_fits(text, rest))
            }
            [Piece::Anything, rest @ ..] => {
                (0..=text.len()).filter_map(|at| text.get(at..)).any(|text| rest_fits(text, rest))
            }
        }
    }
    rest_fits(text, pattern.pieces())
}
