//! HTTP tests: every test starts a node with its own database and uses its public interfaces only.
//!
//! All responses are validated against the OpenAPI document. Tests that use the database run on SQLite and PostgreSQL.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod callbacks;
mod camara;
mod client_key;
mod console;
mod contract;
mod management;
mod node;
mod oauth;
mod operators;
mod products;
mod protocol;
mod sign_in;
mod silent;
mod verifications;
mod world;

use ringtrue_test_support::{callback_receiver as receiver, database, http_client as client};

/// Runs tests that take a `World` on both stores.
macro_rules! on_both_stores {
    ($($test:ident),* $(,)?) => {
        mod sqlite { $(
            #[tokio::test]
            async fn $test() {
                super::$test(crate::world::World::sqlite().await).await;
            }
        )* }
        mod postgres { $(
            #[tokio::test]
            async fn $test() {
                super::$test(crate::world::World::postgres().await).await;
            }
        )* }
    };
}
pub(crate) use on_both_stores;

/// Runs tests that take a `Database`, and configure their `World` themselves, on both stores.
macro_rules! on_both_databases {
    ($($test:ident),* $(,)?) => {
        mod on_sqlite { $(
            #[tokio::test]
            async fn $test() {
                super::$test(crate::database::Database::sqlite().await).await;
            }
        )* }
        mod on_postgres { $(
            #[tokio::test]
            async fn $test() {
                super::$test(crate::database::Database::postgres().await).await;
            }
        )* }
    };
}
pub(crate) use on_both_databases;
