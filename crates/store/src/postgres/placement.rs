//! Which server has which rows.
//!
//! Every row of the data plane has a bucket, by which Citus distributes it. Rows of the same bucket are in one *shard*,
//! which is one table on one server for each distributed table. Nodes read from the metadata of Citus which server has
//! which shard, and send a statement to the shard's own table on that server. There it is an ordinary statement: it has
//! a generic plan, and its transaction commits in one phase, without the coordinator.
//!
//! One `PostgreSQL` server is the smallest placement: it has all buckets, and the tables have their own names. So has a
//! cluster whose nodes use the coordinator only: [`Placement::unsharded`].
//!
//! A shard may move to another server at any time. A transaction that writes to a shard's table therefore takes the lock
//! that Citus takes for the same purpose, and then tests that the shard is still there: see
//! [`LOCK_SHARDS`] and [`TEST_SHARDS`]. A statement that reads is followed by the test. If the test fails, the
//! statements are repeated with the names of the distributed tables, so that Citus finds the rows.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    sync::Arc,
};

use arc_swap::ArcSwap;
use ringtrue_domain::lifecycle::ShardBucket;
use tokio::sync::Notify;
use tokio_postgres::{Client, Error, Row};

const BUCKET_COUNT: usize = 4_096;

/// The tables whose rows are placed by their bucket.
pub(super) const BUCKETED_TABLES: [&str; 10] = [
    "number_limits",
    "idempotency_keys",
    "checks",
    "callbacks",
    "callback_attempts",
    "deadlines",
    "redirect_sessions",
    "verifications",
    "usage_counters",
    "usage_days",
];

/// Locks the metadata of shards until the transaction ends, as Citus does for its own writes (5 is the number of
/// `share` mode). A shard does not move while it is locked.
///
/// Then limits how long later statements wait for a lock. A server that crashes during a two-phase commit leaves rows
/// locked until it is back, and batches that contain such a row must not wait as long. Longer than `deadlock_timeout`,
/// so that a deadlock is reported as such. Does not limit the wait for a moving shard.
pub(super) const LOCK_SHARDS: &str =
    "select lock_shard_metadata(5, $1::bigint[]), set_config('lock_timeout', '1200ms', true)";

/// Fails with `division_by_zero` unless all of these shards are on this server, which is given by its
/// [group](LOCAL_GROUP). A statement of its own, because it must see what a move has committed before the lock was granted.
pub(super) const TEST_SHARDS: &str = "select 1 / (count(*) = cardinality($1::bigint[]))::integer
       from pg_dist_placement where shardid = any($1) and groupid = $2::integer";

/// Selects whether a shard is on the server of this session. A worker that was removed from the cluster has none.
pub(super) const HAS_SHARD: &str =
    "select exists (select from pg_dist_placement join pg_dist_local_group using (groupid)
       where shardid = $1)";

/// Selects the number by which Citus knows the server of this session.
pub(super) const LOCAL_GROUP: &str = "select groupid from pg_dist_local_group";

/// A server of the database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerKey {
    /// The server in `store.url`: the only one, or the coordinator of a Citus cluster.
    Configured,
    /// A worker of a Citus cluster.
    Worker { host: Arc<str>, port: u16 },
}

impl fmt::Display for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerKey::Configured => f.write_str("store.url"),
            ServerKey::Worker { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// Where the rows of some buckets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// Id of the shard of `checks`. It stands for the shards of all tables, which move together.
    pub(super) id: i64,
    pub(super) server: ServerKey,
    /// Names of the shard's tables, by the names of the distributed tables.
    tables: BTreeMap<String, String>,
}

/// Maps buckets to shards, and shards to servers.
#[derive(Debug)]
pub(super) struct Placement {
    /// Empty: the tables have their own names, on the configured server.
    shards: Vec<Shard>,
    /// Index of the shard of each bucket. Empty if `shards` is.
    shard_of_bucket: Vec<u16>,
    /// The bucket in which a server counts usage: the first of its buckets.
    counter_buckets: BTreeMap<ServerKey, ShardBucket>,
}

impl Placement {
    /// All buckets are on the configured server, in tables with their own names.
    pub(super) fn unsharded() -> Self {
        Placement { shards: Vec::new(), shard_of_bucket: Vec::new(), counter_buckets: BTreeMap::new() }
    }

    fn new(shards: Vec<Shard>, shard_of_bucket: Vec<u16>) -> Self {
        let mut counter_buckets = BTreeMap::new();
        for (bucket, shard) in (0_u16..).zip(&shard_of_bucket) {
            let server = &shards[usize::from(*shard)].server;
            if !counter_buckets.contains_key(server) {
                counter_buckets.insert(server.clone(), ShardBucket::of(bucket.to_be_bytes()));
            }
        }
        Placement { shards, shard_of_bucket, counter_buckets }
    }

    pub(super) fn is_unsharded(&self) -> bool {
        self.shards.is_empty()
    }

    /// Returns the shard of a bucket. `None`: the tables have their own names.
    pub(super) fn shard_index(&self, bucket: ShardBucket) -> Option<u16> {
        self.shard_of_bucket.get(usize::from(bucket.number().unsigned_abs())).copied()
    }

    pub(super) fn shard(&self, index: u16) -> &Shard {
        &self.shards[usize::from(index)]
    }

    pub(super) fn server(&self, bucket: ShardBucket) -> &ServerKey {
        self.shard_index(bucket).map_or(&ServerKey::Configured, |index| &self.shard(index).server)
    }

    /// Returns the servers of these buckets, except `server`.
    pub(super) fn other_servers(&self, server: &ServerKey, buckets: Vec<ShardBucket>) -> BTreeSet<ServerKey> {
        let servers = buckets.into_iter().map(|bucket| self.server(bucket));
        servers.filter(|other| *other != server).cloned().collect()
    }

    /// Whether a server has a shard.
    pub(super) fn has_server(&self, server: &ServerKey) -> bool {
        self.counter_buckets.contains_key(server)
    }

    /// Returns the position of a bucket's server among the servers.
    pub(super) fn server_index(&self, bucket: ShardBucket) -> usize {
        let server = self.server(bucket);
        self.counter_buckets.keys().position(|key| key == server).unwrap_or_default()
    }

    /// Returns the servers that have shards, each with the indexes of its shards. Empty if the tables have their own
    /// names.
    pub(super) fn servers(&self) -> BTreeMap<&ServerKey, Vec<u16>> {
        let mut servers = BTreeMap::<_, Vec<u16>>::new();
        for (index, shard) in (0..).zip(&self.shards) {
            servers.entry(&shard.server).or_default().push(index);
        }
        servers
    }

    /// Returns the bucket in which a server counts usage. `None`: the server has no shard, or is the only one, and the
    /// project determines the bucket.
    pub(super) fn counter_bucket(&self, server: &ServerKey) -> Option<ShardBucket> {
        self.counter_buckets.get(server).copied()
    }

    /// Reads the placement from the metadata of Citus. [`unsharded`](Self::unsharded): Citus is not installed, or has
    /// not distributed all tables yet. `known` saves a slow query if the shards have the same buckets as before.
    pub(super) async fn read(client: &Client, known: &Placement) -> Result<Self, Error> {
        let has_citus = "select to_regclass('pg_catalog.pg_dist_placement') is not null";
        if !client.query_one(has_citus, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(Placement::unsharded());
        }
        let rows = client.query(READ_SHARDS, &[&BUCKETED_TABLES.as_slice()]).await?;
        let Some(shards) = shards_from_rows(&rows)? else { return Ok(Placement::unsharded()) };
        let ids = |shards: &[Shard]| shards.iter().map(|shard| shard.id).collect::<Vec<_>>();
        let shard_of_bucket = if ids(&shards) == ids(&known.shards) {
            known.shard_of_bucket.clone()
        } else {
            let row = client.query_one(READ_SHARDS_OF_BUCKETS, &[]).await?;
            let by_id: BTreeMap<i64, u16> = shards.iter().map(|shard| shard.id).zip(0..).collect();
            let found: Vec<i64> = row.try_get(0)?;
            // A shard that was split between the two queries has other ids; the next refresh reads both.
            found.iter().filter_map(|id| by_id.get(id).copied()).collect()
        };
        Ok(if shard_of_bucket.len() == BUCKET_COUNT {
            Self::new(shards, shard_of_bucket)
        } else {
            Placement::unsharded()
        })
    }
}

impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        (&self.shards, &self.shard_of_bucket) == (&other.shards, &other.shard_of_bucket)
    }
}

/// Selects the shards of the bucketed tables, if each is on a server that can be asked directly. Such a server has the
/// metadata, so that it also executes statements on rows that it does not have.
///
/// The metadata need not be the newest (`metadatasynced`): the flag is unset for up to a minute after
/// `citus_update_node`, and every transaction tests that the server has the shard.
const READ_SHARDS: &str =
    "select t.logicalrelid::text, s.shardid, s.shardminvalue::bigint, shard_name(t.logicalrelid, s.shardid),
            n.groupid, n.nodename, n.nodeport
       from pg_dist_partition t join pg_dist_shard s using (logicalrelid) join pg_dist_placement p using (shardid)
            join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
      where t.logicalrelid::text = any($1) and t.partmethod = 'h' and n.hasmetadata
        and t.colocationid = (select colocationid from pg_dist_partition where logicalrelid = to_regclass('checks'))
      order by s.shardminvalue::bigint, t.logicalrelid::text";

/// Hashes all buckets, as Citus does for rows.
const READ_SHARDS_OF_BUCKETS: &str =
    "select array_agg(get_shard_id_for_distribution_column('checks', bucket::smallint) order by bucket)
       from generate_series(0, 4095) as bucket";

/// Groups the tables by their range of hashes. `None`: a table is missing, or not on the same server as the others.
fn shards_from_rows(rows: &[Row]) -> Result<Option<Vec<Shard>>, Error> {
    let mut shards = BTreeMap::<i64, Shard>::new();
    for row in rows {
        let (table, shard_id, min_hash, name): (String, i64, i64, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        let (group, host, port): (i32, String, i32) = (row.try_get(4)?, row.try_get(5)?, row.try_get(6)?);
        let server = if group == 0 {
            ServerKey::Configured
        } else {
            ServerKey::Worker { host: host.into(), port: u16::try_from(port).unwrap_or_default() }
        };
        let shard = match shards.entry(min_hash) {
            Entry::Vacant(entry) => entry.insert(Shard { id: 0, server: server.clone(), tables: BTreeMap::new() }),
            Entry::Occupied(entry) => entry.into_mut(),
        };
        if shard.server != server {
            return Ok(None);
        }
        if table == "checks" {
            shard.id = shard_id;
        }
        shard.tables.insert(table, name);
    }
    let is_complete = shards.values().all(|shard| shard.tables.len() == BUCKETED_TABLES.len());
    Ok((is_complete && !shards.is_empty()).then(|| shards.into_values().collect()))
}

/// Replaces `{table}` in a statement by the name of the shard's table, or by the table's own name.
pub(super) fn with_tables<'s>(sql: &'s str, shard: Option<&Shard>) -> Cow<'s, str> {
    if !sql.contains('{') {
        return Cow::Borrowed(sql);
    }
    let mut named = String::with_capacity(sql.len() + 64);
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once('{') {
        named.push_str(before);
        let (table, after) = after.split_once('}').unwrap_or((after, ""));
        named.push_str(shard.and_then(|shard| shard.tables.get(table)).map_or(table, String::as_str));
        rest = after;
    }
    named.push_str(rest);
    Cow::Owned(named)
}

/// The placement that a node currently uses. Batches read it, and report when it was wrong.
#[derive(Debug)]
pub(super) struct CurrentPlacement {
    placement: ArcSwap<Placement>,
    stale: Notify,
}

impl CurrentPlacement {
    pub(super) fn new(placement: Placement) -> Self {
        CurrentPlacement { placement: ArcSwap::from_pointee(placement), stale: Notify::new() }
    }

    pub(super) fn get(&self) -> Arc<Placement> {
        self.placement.load_full()
    }

    /// Replaces the placement. Returns the servers that have shards, if it has changed.
    pub(super) fn replace(&self, placement: Placement) -> Option<BTreeSet<ServerKey>> {
        if **self.placement.load() == placement {
            return None;
        }
        let servers = placement.servers().into_keys().cloned().collect();
        self.placement.store(Arc::new(placement));
        Some(servers)
    }

    /// Has the placement read again soon.
    pub(super) fn report_stale(&self) {
        self.stale.notify_one();
    }

    /// Waits until a stale placement is reported.
    pub(super) async fn wait_for_stale_report(&self) {
        self.stale.notified().await;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn worker(port: u16) -> ServerKey {
        ServerKey::Worker { host: "db".into(), port }
    }

    /// Two servers with two shards each; a bucket is in the shard of its last two bits.
    fn placement() -> Placement {
        let shard = |index: u16| Shard {
            id: 100 + i64::from(index),
            server: worker(1 + index % 2),
            tables: [("checks".to_owned(), format!("checks_{}", 100 + index))].into(),
        };
        Placement::new((0..4).map(shard).collect(), (0..4096).map(|bucket| bucket & 3).collect())
    }

    fn bucket(number: u16) -> ShardBucket {
        ShardBucket::of(number.to_be_bytes())
    }

    #[test]
    fn bucket_leads_to_the_server_of_its_shard() {
        let placement = placement();
        for (number, port) in [(0, 1), (1, 2), (2, 1), (4095, 2)] {
            assert_eq!(placement.server(bucket(number)), &worker(port), "{number}");
        }
        assert_eq!(placement.servers().into_values().collect::<Vec<_>>(), [[0, 2], [1, 3]]);
        assert_eq!(Placement::unsharded().server(bucket(7)), &ServerKey::Configured);
    }

    #[test]
    fn servers_count_in_a_bucket_of_their_own() {
        let placement = placement();
        for port in [1, 2] {
            let own = placement.counter_bucket(&worker(port)).unwrap();
            assert_eq!(placement.server(own), &worker(port));
        }
        assert_eq!(placement.counter_bucket(&worker(3)), None);
        assert_eq!(Placement::unsharded().counter_bucket(&ServerKey::Configured), None);
    }

    #[test]
    fn statements_name_the_tables_of_a_shard() {
        let sql = "update {checks} checks set a = 1 from {other} where checks.id = 2";
        let placement = placement();
        assert_eq!(
            with_tables(sql, Some(placement.shard(2))),
            "update checks_102 checks set a = 1 from other where checks.id = 2"
        );
        assert_eq!(with_tables(sql, None), "update checks checks set a = 1 from other where checks.id = 2");
        assert_eq!(with_tables("select 1", None), "select 1");
    }
}
