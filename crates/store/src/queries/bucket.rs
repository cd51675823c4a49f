//! Builds conditions on the bucket of a check, by which Citus finds the shard of the check.

use ringtrue_domain::lifecycle::CheckId;

use crate::driver::Database;

/// Returns the condition that restricts a statement to the shard of a check. `table` is empty, or a table name that
/// ends with a dot, such as `checks.`.
pub(super) fn in_bucket<D: Database>(table: &str, check: CheckId) -> String {
    if D::HAS_BUCKETS { format!("and {table}bucket = {}", check.bucket().number()) } else { String::new() }
}

/// Returns the condition that restricts a statement to the shards of several checks.
pub(super) fn in_buckets<D: Database>(table: &str, checks: &[CheckId]) -> String {
    if !D::HAS_BUCKETS {
        return String::new();
    }
    let buckets: Vec<_> = checks.iter().map(|check| check.bucket().number().to_string()).collect();
    format!("and {table}bucket in ({})", buckets.join(", "))
}

/// Returns the bucket column and its value for an insert, each after a comma. Both are empty if the database has no
/// buckets.
pub(super) fn bucket_column<D: Database>(check: CheckId) -> (&'static str, String) {
    if D::HAS_BUCKETS { (", bucket", format!(", {}", check.bucket().number())) } else { ("", String::new()) }
}
