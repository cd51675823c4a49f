//! One suite for both databases: whatever a port promises, each of them keeps.
//!
//! A case takes a [`Bench`] and is run twice, with a fresh `SQLite` file and with a fresh `PostgreSQL` database.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says by its panic what went wrong")]

mod accounts;
mod activity;
mod bench;
mod callbacks;
mod check_lists;
mod check_sample;
mod checks;
mod control_plane;
mod credentials;
mod durability;
mod ended_checks;
mod filters;
mod guards;
mod guesses;
mod idempotency;
mod journeys;
mod keys;
mod migrations;
mod nodes;
mod outages;
mod privacy;
mod projects;
mod requests;
mod revocations;
mod sample;
mod searches;
mod silent_sample;
mod usage;
mod workspaces;

/// Makes a test of each case for each database.
macro_rules! contract {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        mod sqlite {
            $(mod $module { $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let bench = crate::bench::Bench::sqlite().await;
                    crate::$module::$case(&bench).await;
                    bench.clear().await;
                }
            )* })*
        }
        mod postgres {
            $(mod $module { $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let bench = crate::bench::Bench::postgres().await;
                    crate::$module::$case(&bench).await;
                    bench.clear().await;
                }
            )* })*
        }
    };
}

contract! {
    accounts:
        an_address_has_one_account,
        promotion_removes_password_sessions_and_links,
        a_deployment_keeps_an_administrator,
        of_administrators_who_remove_each_other_one_stays,
        a_disabled_account_has_no_access,
        an_invitation_becomes_a_membership_of_its_address_alone,
        an_invitation_creates_an_account_where_there_is_none,
        members_and_invitations_have_a_limit,
        members_belong_to_their_workspace,
        of_owners_who_remove_each_other_one_stays,
        accounts_have_addresses,
        a_session_is_good_until_it_expires_or_ends,
        an_account_has_so_many_sessions_and_no_more,
        the_access_of_many_sessions_is_read_at_once,
        a_link_is_good_once,
        of_many_who_use_a_link_one_comes_in,
        a_new_password_ends_what_the_old_one_opened,
        expired_sessions_and_links_are_forgotten,
        unused_accounts_and_invitations_expire;
    guesses:
        who_guesses_wrong_waits_and_nobody_else_does,
        a_network_address_that_tries_many_accounts_waits_for_all_of_them,
        a_right_guess_is_taken_back,
        of_many_guesses_at_once_only_the_free_ones_count,
        guesses_are_forgotten_after_a_while,
        so_many_guessers_are_remembered_and_no_more;
    workspaces:
        a_workspace_is_found_by_itself_alone,
        workspaces_are_listed_newest_first,
        a_workspace_is_renamed_and_limited,
        what_is_not_there_is_not_renamed,
        a_workspace_is_renamed_as_it_was_read,
        a_workspace_is_created_whole_or_not_at_all;
    projects:
        a_workspace_has_a_bounded_number_of_projects,
        a_project_that_goes_live_has_its_new_credential_only,
        a_project_comes_back_as_it_was_stored,
        a_project_is_found_by_its_workspace_alone,
        a_name_is_unique_in_its_workspace,
        of_many_who_want_a_name_one_gets_it,
        a_project_is_updated,
        an_update_of_an_old_reading_is_stale,
        of_many_who_update_a_reading_one_succeeds,
        a_name_that_is_taken_is_not_given_by_an_update,
        projects_are_listed_newest_first_and_in_pages,
        a_change_leaves_its_audit_event,
        audit_events_are_listed_newest_first,
        audit_events_are_found_by_what_was_done_and_by_whom;
    credentials:
        a_credential_is_found_by_its_owner_alone,
        a_deleted_credential_is_nothing,
        only_the_owner_deletes_a_credential,
        of_many_who_delete_a_credential_one_does,
        an_owner_has_a_bounded_number_of_live_credentials,
        the_newest_dead_credentials_of_a_workspace_are_kept,
        a_credential_is_deleted_as_it_was_read,
        credentials_are_listed_newest_first_by_owner,
        a_credential_needs_its_project,
        a_client_id_is_given_once;
    control_plane:
        an_idle_store_has_no_changes,
        everything_is_a_change_since_nothing,
        only_what_changed_is_a_change,
        a_database_that_went_back_tells_everything,
        an_empty_database_in_place_of_another_tells_so,
        a_revocation_that_is_over_is_not_told,
        a_credential_that_was_deleted_long_ago_is_still_told,
        a_refused_change_is_no_change,
        a_change_is_hinted_at,
        a_reader_that_polls_misses_nothing;
    keys:
        a_key_comes_back_as_it_was_stored,
        the_first_key_of_a_purpose_is_added_once,
        a_key_is_rotated,
        a_rotation_of_an_old_reading_does_nothing,
        of_many_who_rotate_a_key_one_does,
        keys_that_were_gone_are_deleted,
        keys_and_digests_are_replaced_as_they_were_read;
    revocations:
        revoking_twice_is_revoking_once,
        many_revoke_at_once,
        a_caller_that_goes_away_harms_nobody;
    idempotency:
        the_first_claims_and_the_others_wait,
        a_key_stands_for_one_request,
        a_completed_request_is_answered_again,
        a_dead_claim_is_taken_over,
        an_expired_key_is_free,
        tenants_have_keys_of_their_own,
        an_abandoned_key_is_free,
        only_its_holder_abandons_a_claim,
        of_many_who_claim_a_key_one_gets_it,
        many_claim_and_abandon_many_keys,
        a_completion_is_written_with_what_was_done,
        a_lost_claim_undoes_what_was_done;
    usage:
        counts_add_up,
        counts_are_grouped_by_period,
        whole_hours_are_counted,
        usage_is_a_workspaces_own,
        many_count_at_once,
        a_poisonous_count_fails_alone;
    activity:
        every_count_comes_back_as_it_was_added,
        counts_of_older_releases_are_read,
        periods_are_summed_up,
        activity_is_found_by_product_and_network,
        activity_is_a_projects_own,
        many_nodes_add_at_once,
        old_minutes_become_hours_and_old_hours_go,
        waiting_callbacks_are_counted_by_project;
    nodes:
        a_node_lives_while_it_is_heard_of,
        the_latest_time_is_kept,
        a_database_that_went_back_is_noticed,
        a_node_leaves,
        many_nodes_are_heard_at_once,
        nodes_read_what_others_published,
        a_node_lives_on_while_tenants_keep_the_database_busy,
        what_has_expired_is_forgotten,
        old_audit_events_are_deleted,
        only_a_bounded_number_is_forgotten_at_once;
    filters:
        filters_find_what_they_say,
        patterns_tell_upper_from_lower_case,
        a_page_of_a_filtered_list_knows_its_total,
        filters_agree_with_an_evaluation_in_memory;
    checks:
        a_check_comes_back_as_it_was_stored,
        a_check_is_found_by_its_project_alone,
        many_find_their_checks_at_once,
        a_check_is_found_by_the_first_known_code,
        a_check_that_still_waits_goes_before_one_that_has_ended,
        a_bad_check_fails_nobody_else,
        an_answer_is_kept_with_its_check,
        a_check_ends_once,
        every_end_comes_back_as_it_was_recorded,
        checks_that_wait_for_a_number_become_pending,
        a_check_tells_how_it_went,
        overdue_checks_are_found_longest_overdue_first;
    ended_checks:
        a_check_made_with_its_end_comes_back_as_it_was_stored,
        many_are_made_with_their_end_and_a_bad_one_fails_alone,
        an_answer_is_kept_with_a_check_made_with_its_end;
    guards:
        a_number_is_asked_about_so_often_in_a_while,
        a_guard_of_nothing_lets_nothing_pass,
        a_guard_that_was_changed_holds_at_once,
        many_who_ask_about_a_number_pass_no_more_than_one,
        what_was_refused_leaves_no_answer,
        each_product_has_a_count_of_its_own,
        without_a_guard_nothing_is_counted,
        what_was_discovered_does_not_count;
    journeys:
        a_new_check_waits_for_its_device,
        a_device_sets_out,
        a_device_that_sets_out_again_has_a_new_ticket,
        a_device_that_sets_out_many_times_at_once_has_one_ticket,
        a_ticket_is_used_once,
        an_operator_speaks_once,
        wrong_codes_are_counted,
        nothing_is_left_of_a_journey_when_its_check_ends,
        counters_follow_a_device_from_network_to_network,
        counters_agree_with_checks_that_end_while_devices_set_out,
        a_check_is_of_one_product,
        a_discovered_number_is_kept_with_its_check;
    callbacks:
        an_end_queues_its_callback,
        an_end_that_comes_late_queues_nothing,
        a_check_does_not_end_without_its_callback,
        what_is_due_is_leased_longest_due_first,
        no_two_lease_the_same_callback,
        an_attempt_is_settled_once,
        a_callback_is_sent_again_in_a_new_series,
        projects_can_be_passed_over_when_leasing,
        resends_and_kept_attempts_are_bounded,
        many_attempts_are_settled_at_once,
        callbacks_long_overdue_are_given_up,
        a_lease_is_given_back;
    privacy:
        a_number_is_erased,
        what_is_old_is_erased_a_little_at_a_time,
        what_was_discovered_is_erased_sooner,
        a_discovered_number_is_erased_by_its_hash,
        where_a_device_was_sent_is_erased_too,
        a_callback_that_is_done_is_forgotten_with_its_number,
        what_was_open_is_erased_when_it_has_ended,
        what_was_being_told_is_erased_when_it_has_come,
        what_was_left_is_erased_a_little_at_a_time;
    requests:
        requests_come_back_as_they_were_kept,
        requests_are_found_by_what_they_were_answered,
        a_projects_oldest_requests_go_first,
        unauthenticated_requests_displace_no_others,
        old_requests_are_forgotten_a_bounded_number_at_a_time;
    check_lists:
        counters_agree_with_the_checks,
        lists_agree_with_an_evaluation_in_memory,
        a_filter_on_a_field_that_is_not_there_is_refused;
    searches:
        a_search_is_stopped_at_its_deadline,
        nothing_else_waits_for_searches,
        a_workspace_has_two_searches_at_a_time;
    durability:
        what_was_answered_is_there_after_opening_again,
        two_processes_share_a_database;
    migrations:
        an_empty_database_is_not_opened,
        migrating_twice_is_migrating_once,
        many_migrate_at_once,
        a_database_that_is_behind_is_not_opened,
        a_database_of_a_newer_release_is_not_opened,
        a_node_notices_that_the_schema_went_back,
        an_edited_migration_is_noticed;
    outages:
        a_read_only_database_is_unavailable,
        a_database_that_comes_back_is_used_again;
}
