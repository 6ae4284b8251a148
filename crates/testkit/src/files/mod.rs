//! Conformance of file systems: what every `FileBackend` must do.
//!
//! **Owns** the list of behaviours ([`ALL`]), each a test by itself, and a comparison of two file systems by random operations
//! ([`mod@compare`], [`mod@operations`]). **Called by** the tests of each file system. **Invariants**: only the interface is used;
//! what POSIX, Linux and the interface leave open (directory sizes, space of data, where holes begin, cookies) is not checked.
//!
//! ```ignore
//! testkit::files::check_all(|behaviour| {
//!     RUNS.both(|| async { behaviour.check(new_file_system().await).await });
//! });
//! ```

mod access;
mod acls;
mod attributes;
mod bed;
mod behaviour;
mod compare;
mod contents;
mod holes;
mod life;
mod listing;
mod names;
mod operations;
pub mod random;
mod rename;
mod side;
mod watches;
mod xattrs;

pub use behaviour::Behaviour;
pub use compare::compare;
pub use operations::{Operation, operations};

use std::panic::AssertUnwindSafe;

/// All behaviours.
pub const ALL: &[Behaviour] = behaviour::behaviours![
    names::a_name_is_found_where_it_was_created,
    names::names_are_bytes,
    names::creation_makes_every_kind,
    names::creation_keeps_an_object_that_exists,
    names::exclusive_creation_is_repeatable,
    names::symbolic_links_keep_their_target,
    names::directories_know_their_parent,
    names::only_directories_have_names,
    names::links_are_names_of_one_object,
    names::links_are_limited,
    names::removal_checks_the_kind,
    names::a_new_object_has_nothing_of_an_old_one,
    life::an_open_file_lives_without_names,
    life::a_replaced_open_file_lives_on,
    life::only_files_are_opened,
    life::handles_of_gone_objects_are_stale,
    life::durable_mutations_return_a_proof,
    life::space_is_counted,
    rename::every_kind_replaces_what_it_may,
    rename::names_of_one_object_are_no_rename,
    rename::a_directory_never_gets_into_itself,
    rename::links_follow_directories,
    rename::a_replaced_name_keeps_its_cookie,
    listing::every_name_is_listed_once,
    listing::attributes_are_listed_on_request,
    listing::the_end_is_told,
    listing::cookies_survive_removals_and_additions,
    listing::a_directory_has_many_names,
    contents::what_was_written_is_read,
    contents::reads_end_with_the_file,
    contents::a_write_of_nothing_changes_nothing,
    contents::sizes_are_limited,
    contents::a_file_that_shrank_grows_with_zeroes,
    contents::appends_by_two_writers_stay_whole,
    contents::only_files_have_contents,
    contents::copies_are_of_the_bytes,
    contents::a_file_is_copied_into_itself_beside_the_source,
    contents::durable_writes_are_read,
    holes::holes_read_as_zero,
    holes::seeks_find_all_data,
    holes::the_end_counts_as_a_hole,
    holes::zeroed_ranges_read_as_zero,
    holes::punching_frees_space,
    holes::reserving_keeps_the_data,
    holes::ranges_are_checked,
    attributes::a_new_object_has_the_present_time,
    attributes::operations_on_contents_note_times,
    attributes::operations_on_attributes_note_times,
    attributes::operations_on_names_note_times_of_directories,
    attributes::accesses_are_noted_as_relatime_does,
    attributes::times_are_set,
    attributes::held_times_change_nothing_else,
    attributes::a_guard_that_does_not_match_sets_nothing,
    attributes::a_refused_change_sets_nothing,
    attributes::the_mode_of_a_symbolic_link_stays,
    attributes::writing_clears_setuid_and_setgid,
    attributes::a_new_owner_clears_setuid_and_setgid,
    attributes::setgid_directories_hand_on_their_group,
    access::files_are_opened_by_their_class,
    access::directories_are_used_by_their_class,
    access::a_missing_permission_is_told_in_linux_order,
    access::the_superuser_may_nearly_everything,
    access::a_caller_that_the_client_checked_is_not_checked,
    access::sticky_directories_protect_names,
    access::moving_a_directory_needs_permission_to_write_it,
    access::owners_set_attributes,
    access::setgid_needs_membership,
    acls::lists_are_kept,
    acls::a_list_decides_in_place_of_the_mode,
    acls::a_mode_changes_the_list,
    acls::new_objects_inherit_entries,
    acls::a_list_at_creation_decides_about_the_mode,
    acls::lists_are_set_by_owners_and_who_they_allow,
    acls::lists_decide_about_names,
    xattrs::values_are_created_replaced_and_removed,
    xattrs::names_and_values_are_limited,
    xattrs::the_names_of_one_object_are_limited,
    xattrs::attributes_belong_to_the_object,
    xattrs::namespaces_have_their_own_rules,
    xattrs::only_files_and_directories_have_attributes_of_users,
    watches::names_that_change_are_told,
    watches::contents_and_attributes_are_told,
    watches::a_refused_change_is_not_told,
    watches::lost_events_are_told,
    watches::a_watch_ends_with_its_directory,
    watches::only_directories_are_watched,
];

/// Calls `run` with every behaviour, and panics with the names of those for which it panicked.
pub fn check_all(run: impl Fn(&'static Behaviour)) {
    let fails = |behaviour: &&'static Behaviour| {
        let check = AssertUnwindSafe(|| run(behaviour));
        std::panic::catch_unwind(check).is_err()
    };
    let failed: Vec<_> = ALL.iter().filter(fails).map(Behaviour::name).collect();
    assert!(failed.is_empty(), "broken: {failed:#?}");
}
