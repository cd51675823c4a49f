//! HTTP tests: every test starts a node with its own database and uses its public interfaces only.
//!
//! All responses are validated against the OpenAPI document. Tests that use the database run on SQLite and PostgreSQL.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod address_tables;
mod allowed_networks;
mod at_rest;
mod audit;
mod bearer;
mod busy_database;
mod callback_resends;
mod callback_urls;
mod callbacks;
mod checks;
mod clocks;
mod console;
mod contract;
mod credentials;
mod document;
mod eligibility;
mod enrichment_gateway;
mod etags;
mod framing;
mod going_live;
mod header_enrichment;
mod health;
mod idempotency;
mod ingress;
mod json;
mod keys;
mod landing;
mod login_throttle;
mod metadata;
mod middleware;
mod minimal_client;
mod networks;
mod nodes;
mod number_directory;
mod outage;
mod paging;
mod privacy;
mod projects;
mod proxy_protocol;
mod race;
mod random_input;
mod rate_limits;
mod regions;
mod request_log;
mod responses;
mod restores;
mod retention;
mod reverse_sms;
mod revoke;
mod routes;
mod scripted_operator;
mod scripted_sim_swap;
mod search;
mod search_limit;
mod shutdown;
mod silent;
mod silent_client;
mod silent_device;
mod silent_requests;
mod sim_swap;
mod sim_swap_operator;
mod sizes;
mod slow_clients;
mod tenant_limits;
mod tenants;
mod token;
mod token_errors;
mod token_invalidation;
mod usage;
mod verification_control;
mod verification_page;
mod verifications;
mod workspaces;
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
