//! Computes buckets, and builds conditions on the bucket of a row, by which Citus finds its shard.

use ringtrue_domain::lifecycle::{CheckId, ShardBucket};

use crate::{driver::Database, row::Value};

/// Returns the bucket of a row whose key is a digest, such as the limit of a number or an idempotency key.
pub(crate) fn digest_bucket(digest: &[u8; 32]) -> ShardBucket {
    let [.., high, low] = *digest;
    ShardBucket::of([high, low])
}

/// Returns the condition that restricts a statement to the shard of a bucket, which is added to `values`: as a
/// parameter, so that the statement is the same for all buckets.
pub(super) fn bucket_condition<D: Database>(bucket: ShardBucket, values: &mut Vec<Value>) -> String {
    table_bucket_condition::<D>("", bucket, values)
}

/// As [`bucket_condition`], for a statement on several tables. `table` ends with a dot, such as `checks.`.
pub(super) fn table_bucket_condition<D: Database>(table: &str, bucket: ShardBucket, values: &mut Vec<Value>) -> String {
    if !D::HAS_BUCKETS {
        return String::new();
    }
    values.push(bucket_value(bucket));
    format!("and {table}bucket = ${}", values.len())
}

fn bucket_value(bucket: ShardBucket) -> Value {
    Value::Int(bucket.number().into())
}

/// Returns the condition that restricts a statement to the shards of several checks.
pub(super) fn buckets_condition<D: Database>(table: &str, checks: &[CheckId]) -> String {
    if !D::HAS_BUCKETS {
        return String::new();
    }
    let buckets: Vec<_> = checks.iter().map(|check| check.bucket().number().to_string()).collect();
    format!("and {table}bucket in ({})", buckets.join(", "))
}

/// Returns the bucket column and its parameter for an insert, each after a comma, and adds the bucket to `values`. Both
/// are empty if the database has no buckets.
pub(super) fn bucket_column<D: Database>(bucket: ShardBucket, values: &mut Vec<Value>) -> (&'static str, String) {
    if !D::HAS_BUCKETS {
        return ("", String::new());
    }
    values.push(bucket_value(bucket));
    (", bucket", format!(", ${}", values.len()))
}
