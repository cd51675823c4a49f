//! The HTTP door, from outside: every test has a world of its own and knocks at public doors only.
//!
//! Each answer is held against the OpenAPI document. Tests that touch the database run on SQLite and on PostgreSQL.

mod client;
mod contract;
mod database;
mod document;
mod keys;
mod management;
mod tokens;
mod world;

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
