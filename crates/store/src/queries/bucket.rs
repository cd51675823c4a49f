//! Computes buckets, and builds conditions on the bucket of a row, by which Citus finds its shard.

use ringtrue_domain::lifecycle::{Bucket, CheckId};

use crate::{driver::Database, row::Value};

/// Returns the bucket of a row whose key is a digest, such as the limit of a number or an idempotency key.
pub(crate) fn digest_bucket(digest: &[u8; 32]) -> Bucket {
    let [.., high, low] = *digest;
    Bucket::of([high, low])
}

/// Returns the condition that restricts a statement to the shard of a check. `table` is empty, or a table name that
/// ends with a dot, such as `checks.`.
pub(super) fn in_bucket<D: Database>(table: &str, check: CheckId) -> String {
    equals_bucket::<D>(table, check.bucket())
}

/// As [`in_bucket`], for rows that do not belong to a check.
pub(super) fn equals_bucket<D: Database>(table: &str, bucket: Bucket) -> String {
    if D::HAS_BUCKETS { format!("and {table}bucket = {}", bucket.number()) } else { String::new() }
}

/// As [`in_bucket`], for a statement that is used repeatedly: the bucket is a parameter, which is added to `values`.
pub(super) fn in_bucket_parameter<D: Database>(check: CheckId, values: &mut Vec<Value>) -> String {
    if !D::HAS_BUCKETS {
        return String::new();
    }
    values.push(Value::Int(check.bucket().number().into()));
    format!("and bucket = ${}", values.len())
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
pub(super) fn bucket_column<D: Database>(bucket: Bucket) -> (&'static str, String) {
    if D::HAS_BUCKETS { (", bucket", format!(", {}", bucket.number())) } else { ("", String::new()) }
}
