//! Conditions on the bucket of a check, by which Citus finds its shard.

use ringtrue_domain::lifecycle::CheckId;

use crate::driver::Database;

/// The condition that leads to the shard of a check. `table` is empty or ends in a dot.
pub(super) fn in_bucket<D: Database>(table: &str, check: CheckId) -> String {
    if D::HAS_BUCKETS { format!("and {table}bucket = {}", check.bucket().number()) } else { String::new() }
}

/// The condition that leads to the shards of several checks.
pub(super) fn in_buckets<D: Database>(table: &str, checks: &[CheckId]) -> String {
    if !D::HAS_BUCKETS {
        return String::new();
    }
    let buckets: Vec<_> = checks.iter().map(|check| check.bucket().number().to_string()).collect();
    format!("and {table}bucket in ({})", buckets.join(", "))
}

/// The column and the value for an insert, each after a comma.
pub(super) fn bucket_column<D: Database>(check: CheckId) -> (&'static str, String) {
    if D::HAS_BUCKETS { (", bucket", format!(", {}", check.bucket().number())) } else { ("", String::new()) }
}
