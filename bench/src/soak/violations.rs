//! Broken promises, counted by kind, with a few examples of each.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::report;

const MAX_EXAMPLES: usize = 3;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Violations(Arc<Mutex<BTreeMap<&'static str, Kind>>>);

#[derive(Default)]
struct Kind {
    count: u64,
    examples: Vec<String>,
}

impl Violations {
    pub fn add(&self, kind: &'static str, example: impl FnOnce() -> String) {
        let mut kinds = self.0.lock();
        let kind = kinds.entry(kind).or_default();
        kind.count += 1;
        if kind.examples.len() < MAX_EXAMPLES {
            kind.examples.push(example());
        }
    }

    /// Prints all violations; returns whether there are none.
    pub fn report(&self) -> bool {
        let kinds = self.0.lock();
        for (name, Kind { count, examples }) in kinds.iter() {
            report::note(&format!("FAILED: {count} {name}"));
            for example in examples {
                report::note(&format!("    {example}"));
            }
        }
        kinds.is_empty()
    }
}
