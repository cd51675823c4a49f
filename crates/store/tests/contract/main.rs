//! Tests the contract of the store ports against all databases.
//!
//! Each case takes a [`StoreFixture`](fixture::StoreFixture). It runs with a `SQLite` file, with a `PostgreSQL`
//! database, and with a database that Citus distributes over three servers.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

mod accounts;
mod activity;
mod callbacks;
mod check_lists;
mod check_sample;
mod checks;
mod citus_faults;
mod concluded_checks;
mod control_plane;
mod credentials;
mod deadlocks;
mod distribution;
mod filters;
mod fixture;
mod idempotency;
mod keys;
mod leases;
mod migrations;
mod nodes;
mod number_limits;
mod outages;
mod privacy;
mod projects;
mod redirect_sessions;
mod requests;
mod retention;
mod sample;
mod sandbox;
mod searches;
mod sessions;
mod sign_in;
mod sign_ins;
mod silent_sample;
mod sms_parts;
mod transfer;
mod usage;
mod verifications;
mod workspaces;

/// Generates a test for each case, which runs with one kind of database.
macro_rules! suite {
    ($database:ident: $($module:ident: $($case:ident),* $(,)?;)*) => {
        mod $database {
            $(mod $module { $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = crate::fixture::StoreFixture::$database().await;
                    crate::$module::$case(&fixture).await;
                    fixture.clear().await;
                }
            )* })*
        }
    };
}

/// Generates the tests of cases that apply to all databases. The tests for Citus run only where the extension is
/// installed.
macro_rules! contract {
    ($($cases:tt)*) => {
        suite! { sqlite: $($cases)* }
        suite! { postgres: $($cases)* }
        suite! { citus: $($cases)* }
    };
}

/// Cases about the partitions and shards of tables.
mod division {
    suite! {
        postgres: distribution: missing_partitions_are_created, batches_read_only_their_rows_of_new_partitions;
    }
    suite! {
        citus: distribution:
            missing_partitions_are_created,
            lookups_through_the_coordinator_are_one_task,
            frequent_operations_ask_the_server_that_has_the_rows,
            keyed_creates_ask_one_server,
            moved_shards_are_found,
            tables_with_rows_are_distributed_while_they_are_written;
        verifications: moves_stay_on_one_shard;
    }
}

/// Cases that delay a database server or count its deadlocks. They do not run with Citus.
mod one_server {
    suite! { sqlite: searches:
    search_ends_at_its_deadline,
    searches_do_not_delay_other_queries,
    lists_of_one_workspace_do_not_delay_others; }
    suite! {
        postgres:
            searches:
            search_ends_at_its_deadline,
            searches_do_not_delay_other_queries,
            lists_of_one_workspace_do_not_delay_others;
            deadlocks: batches_of_two_nodes_do_not_deadlock;
            callbacks: leasing_skips_callbacks_that_another_node_is_leasing;
    }
}

contract! {
    accounts:
        email_has_one_account,
        promotion_removes_password_sessions_and_links,
        last_administrator_cannot_be_removed,
        concurrent_removals_keep_one_administrator,
        disabled_account_has_no_access,
        only_the_invited_email_accepts_an_invitation,
        invitation_creates_a_missing_account,
        members_and_invitations_are_limited,
        members_belong_to_their_workspace,
        concurrent_removals_keep_one_owner,
        emails_of_accounts_are_read,
        unused_accounts_and_invitations_expire;
    sign_in:
        identity_belongs_to_one_account,
        first_link_removes_the_password_of_a_stranger,
        roles_by_claim_and_by_hand_are_kept_apart,
        code_of_a_second_factor_is_accepted_once,
        second_factor_is_removed_by_code_or_administrator,
        second_factor_is_replaced_with_password_and_code,
        link_of_an_account_with_a_second_factor_begins_no_session,
        other_sessions_end_together;
    sessions:
        session_is_valid_until_it_expires_or_ends,
        sessions_per_account_are_limited,
        access_of_many_sessions_is_read_together,
        link_is_redeemed_once,
        concurrent_redemptions_of_a_link_succeed_once,
        new_password_ends_other_sessions_and_links,
        expired_sessions_and_links_are_deleted,
        failed_logins_delay_only_their_account_and_address,
        address_that_tries_many_accounts_is_delayed,
        successful_login_resets_the_throttle,
        concurrent_attempts_pass_only_within_the_free_limit,
        throttle_entries_expire,
        throttle_entries_are_limited;
    workspaces:
        workspace_is_visible_only_to_itself,
        workspaces_are_listed_newest_first,
        workspace_name_and_limits_are_updated,
        missing_workspace_is_not_updated,
        stale_workspace_is_not_renamed,
        workspace_creation_is_atomic;
    projects:
        projects_per_workspace_are_limited,
        going_live_replaces_all_credentials,
        project_round_trips,
        project_is_visible_only_to_its_workspace,
        project_name_is_unique_in_its_workspace,
        concurrent_creations_of_a_name_succeed_once,
        project_is_updated,
        uploaded_logo_is_kept_replaced_and_removed,
        update_of_an_old_revision_is_stale,
        concurrent_updates_of_a_revision_succeed_once,
        update_to_a_taken_name_is_rejected,
        projects_are_listed_newest_first_and_in_pages,
        change_inserts_its_audit_event,
        audit_events_are_listed_newest_first,
        audit_events_are_filtered_by_action_and_actor,
        capped_audit_events_are_counted_by_actor_or_target;
    credentials:
        credential_is_visible_only_to_its_owner,
        deleted_credential_is_not_found,
        credential_is_deleted_only_by_its_owner,
        concurrent_deletions_of_a_credential_succeed_once,
        last_live_credential_of_a_workspace_is_not_deleted,
        concurrent_deletions_leave_a_workspace_credential,
        live_credentials_per_owner_are_limited,
        only_newest_dead_credentials_are_kept,
        stale_credential_is_not_deleted,
        replaced_credential_retires,
        credentials_are_listed_newest_first_by_owner,
        credential_of_a_missing_project_is_rejected,
        client_id_is_unique;
    control_plane:
        an_idle_store_has_no_changes,
        changes_since_zero_are_a_full_snapshot,
        changes_contain_only_changed_rows,
        older_database_returns_a_full_snapshot,
        empty_database_returns_a_full_snapshot,
        expired_revocation_is_not_a_change,
        deleted_credential_remains_in_changes,
        rolled_back_change_keeps_the_version,
        change_triggers_the_notification,
        polling_reader_misses_no_change,
        revocation_is_idempotent,
        concurrent_revocations_are_stored,
        cancelled_caller_does_not_affect_others;
    keys:
        key_round_trips,
        first_key_of_a_purpose_is_added_once,
        key_is_rotated,
        rotation_of_a_superseded_key_does_nothing,
        concurrent_rotations_succeed_once,
        rotation_deletes_expired_keys,
        stale_reseal_is_rejected;
    idempotency:
        second_claim_is_in_progress,
        key_with_another_fingerprint_is_reused,
        completed_request_returns_the_stored_response,
        claim_with_an_expired_lease_is_taken_over,
        expired_key_can_be_claimed,
        keys_are_scoped_by_tenant,
        released_key_can_be_claimed,
        claim_is_released_only_by_its_holder,
        concurrent_claims_of_a_key_succeed_once,
        concurrent_claims_and_releases_do_not_deadlock,
        response_is_stored_with_the_change,
        lost_claim_rolls_back_the_change;
    usage:
        usage_counts_are_summed,
        usage_is_grouped_by_period,
        usage_includes_only_full_hours,
        usage_is_scoped_by_workspace,
        concurrent_counts_are_summed,
        overflowing_count_fails_only_itself;
    activity:
        activity_counts_round_trip,
        activity_is_summed_by_period,
        activity_is_filtered_by_product_and_network,
        steps_are_counted_apart,
        funnel_is_summed_and_rolled_up,
        activity_is_scoped_by_project,
        concurrent_activity_is_summed,
        old_minutes_are_rolled_up_and_old_hours_deleted,
        completion_durations_are_those_of_completed_checks,
        waiting_callbacks_are_counted_by_project;
    nodes:
        node_is_live_until_its_heartbeat_expires,
        latest_recorded_time_never_decreases,
        database_rollback_is_detected,
        deregistered_node_is_not_live,
        concurrent_heartbeats_do_not_deadlock,
        demand_is_exchanged_between_nodes,
        demand_exchange_does_not_wait_for_other_nodes,
        heartbeats_do_not_wait_for_tenants,
        expired_rows_are_deleted,
        old_audit_events_are_deleted,
        deletion_of_expired_rows_is_limited;
    filters:
        filters_select_matching_projects,
        patterns_are_case_sensitive,
        filtered_page_has_the_total,
        filters_match_an_evaluation_in_memory;
    checks:
        check_round_trips,
        check_is_visible_only_to_its_project,
        concurrent_lookups_find_their_checks,
        first_known_code_selects_the_check,
        open_check_is_preferred_over_concluded_one,
        duplicate_check_fails_only_itself,
        response_is_stored_with_the_check,
        check_is_concluded_once,
        conclusions_round_trip,
        checks_awaiting_a_number_become_pending,
        checks_of_a_number_are_found,
        check_history_is_stored,
        overdue_checks_are_listed_oldest_first;
    verifications:
        verification_is_created_with_its_first_step,
        first_opening_is_kept,
        step_leads_to_the_next_once,
        second_text_counts_but_is_not_refused,
        reached_number_limits_are_found,
        verdict_wins_over_giving_up,
        verdict_and_giving_up_exclude_each_other,
        response_is_stored_with_the_move,
        end_is_stored_with_its_callback,
        completion_code_is_redeemed_once,
        page_mark_changes_with_what_the_page_shows,
        next_step_counts_towards_the_number_limit,
        first_step_over_the_number_limit_creates_nothing,
        expiry_ends_step_and_verification,
        sim_swap_step_moves_the_deadline_and_ends_with_its_check,
        concurrent_moves_succeed_once,
        verification_of_a_number_is_erased,
        old_verifications_are_deleted,
        misplaced_step_is_rejected;
    concluded_checks:
        concluded_check_round_trips,
        duplicate_concluded_check_fails_only_itself,
        response_is_stored_with_the_concluded_check;
    number_limits:
        checks_per_number_are_limited_in_a_window,
        limit_of_zero_rejects_every_check,
        changed_limit_applies_immediately,
        concurrent_creations_respect_the_limit,
        rejected_check_stores_no_response,
        limit_is_counted_by_product,
        check_without_a_limit_is_always_created,
        discovered_numbers_are_not_counted;
    redirect_sessions:
        new_check_has_a_redirect_session,
        redirect_marks_the_check_pending,
        second_redirect_replaces_the_state,
        concurrent_redirects_leave_one_valid_state,
        state_is_consumed_once,
        verdict_is_stored_once,
        verdict_is_taken_once,
        wrong_codes_are_counted,
        conclusion_deletes_the_redirect_session,
        counters_follow_network_changes,
        counters_match_checks_after_concurrent_redirects,
        check_is_scoped_by_product,
        discovered_number_round_trips;
    callbacks:
        conclusion_queues_its_callback,
        late_conclusion_queues_no_callback,
        check_stays_open_if_its_callback_fails,
        due_callbacks_are_leased_oldest_first,
        callback_is_leased_once,
        attempt_is_settled_once,
        resent_callback_starts_a_new_series,
        lease_skips_projects,
        resends_and_logged_attempts_are_limited,
        concurrent_settlements_are_stored,
        overdue_callbacks_are_given_up,
        callbacks_are_listed_by_state,
        callbacks_are_listed_by_time,
        attempts_are_listed_by_check,
        failing_callbacks_are_listed,
        lease_is_released;
    privacy:
        number_is_erased,
        old_checks_are_erased_in_batches,
        discovered_numbers_are_erased_earlier,
        discovered_number_is_erased_by_hash,
        redirect_url_is_erased,
        settled_callback_is_erased_with_its_number,
        open_check_is_erased_after_its_conclusion,
        waiting_callback_is_erased_after_its_settlement,
        deferred_erasures_run_in_batches;
    retention:
        old_checks_are_deleted_with_their_callbacks_and_attempts,
        lists_are_exact_at_the_retention_boundary,
        open_checks_and_waiting_callbacks_outlive_the_retention,
        concurrent_deletions_delete_each_check_once;
    requests:
        requests_round_trip,
        requests_are_filtered_by_response,
        trimming_deletes_the_oldest_requests,
        unauthenticated_requests_are_trimmed_separately,
        old_requests_are_deleted_in_batches;
    leases:
        lease_is_held_by_one_node,
        released_lease_is_free,
        deregistered_node_releases_its_leases,
        expired_lease_is_free,
        lease_expires_by_the_clock_of_the_database,
        concurrent_requests_acquire_a_lease_once;
    sign_ins:
        open_sign_in_changes_its_check,
        sign_in_ends_once,
        ended_sign_ins_are_counted_once,
        code_is_redeemed_once_in_a_race,
        sign_in_changes_once_in_a_race,
        late_and_missing_codes_are_invalid,
        pushed_request_is_taken_once_by_its_client,
        sessions_and_assertions_end;
    sms_parts:
        parts_complete_an_sms_in_any_order,
        processed_sms_is_not_completed_again,
        different_content_begins_a_new_sms,
        expired_parts_do_not_complete_an_sms,
        concurrent_parts_complete_an_sms_once,
        incomplete_sms_are_limited,
        expired_sms_are_deleted,
        stored_parts_survive_a_reopen,
        concurrent_parts_and_expiry_do_not_deadlock;
    sandbox:
        simulated_sim_swaps_belong_to_their_project,
        oldest_simulated_sim_swaps_are_deleted;
    check_lists:
        counters_match_the_checks,
        lists_match_an_evaluation_in_memory,
        unknown_filter_field_is_rejected;
    searches:
        searches_per_workspace_are_limited;
    migrations:
        empty_database_is_rejected,
        migration_is_idempotent,
        concurrent_migrations_are_serialised,
        database_with_pending_migrations_is_rejected,
        release_runs_on_the_expanded_schema_of_the_next,
        database_of_an_incompatible_release_is_rejected,
        ping_detects_missing_migrations,
        edited_migration_is_rejected;
    transfer:
        deployment_moves_to_the_other_database_and_back,
        export_requires_stopped_servers,
        import_requires_an_empty_database_of_the_same_schema,
        damaged_export_is_rejected_as_a_whole;
    outages:
        read_only_database_is_unavailable,
        store_recovers_after_lost_connections,
        completed_writes_survive_a_reopen,
        two_stores_share_a_database;
}
