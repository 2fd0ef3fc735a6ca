//! The specification of the simulated disk is the kernel. Each program here runs in a temporary
//! folder of the system and in one of a simulated host, and must see the same answers.
//!
//! A program notes values and numbers of errors in a `Trace`. It is given the path of an empty
//! folder, and makes ordinary calls of std and of libc.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[path = "files/checks.rs"]
mod checks;
#[path = "files/data.rs"]
mod data;
#[path = "files/names.rs"]
mod names;
#[path = "files/paths.rs"]
mod paths;
#[path = "files/random.rs"]
mod random;
#[path = "files/trace.rs"]
mod trace;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use trace::Trace;
use ws_sim::Sim;

/// A folder of the system that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "ws-sim-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// What a program sees on the system, and what it sees on a simulated host.
fn both(program: impl Fn(&Path, &mut Trace) + Clone + 'static) -> (String, String) {
    let real = Temporary::new();
    let mut trace = Trace::new(&real.0);
    program(&real.0, &mut trace);
    let real = trace.lines.join("\n");
    let sim = Sim::new(1);
    let (says, said) = std::sync::mpsc::channel();
    sim.client("host", async move {
        let path = Path::new("/tmp/of/the/test");
        fs::create_dir_all(path).unwrap();
        let mut trace = Trace::new(path);
        program(path, &mut trace);
        says.send(trace.lines.join("\n")).unwrap();
    });
    sim.try_run().unwrap();
    (real, said.recv().unwrap())
}

#[track_caller]
fn compare(program: fn(&Path, &mut Trace)) {
    let (real, simulated) = both(program);
    assert!(
        real.lines().count() > 2,
        "a program that notes nothing shows nothing"
    );
    assert_eq!(simulated, real, "simulated, and real");
}

/// musl's limits are the same for each path.
#[cfg(target_env = "gnu")]
#[test]
fn limits_without_a_file() {
    compare(paths::limits_without_a_file);
}

/// Makes a test of each program.
macro_rules! tests {
    ($($module:ident: $($name:ident)*;)*) => {
        $($(
            #[test]
            fn $name() {
                compare($module::$name);
            }
        )*)*
    };
}

tests! {
    checks:
        locks_of_ranges_are_checked wrong_arguments_are_refused places_and_flags_in_one_call
        calls_by_number_and_hints a_file_without_a_name_gets_one
        a_file_may_get_a_name_whoever_opened_it open_files_are_opened_once_more;
    names:
        folders_are_made_and_removed files_are_opened_in_all_modes links_are_followed
        renames_replace_what_they_may hard_links_share_a_file removed_files_stay_open
        relative_paths_begin_in_the_current_folder wrong_paths_are_refused
        folders_are_listed places_in_a_folder_are_found_again paths_become_real
        permissions_and_times_are_kept exclusive_and_temporary_files
        descriptors_of_folders_are_beginnings renames_with_flags access_is_asked_for
        everything_is_removed a_slash_follows_no_link_whose_name_is_changed;
    data:
        reads_and_writes_move_the_position appends_go_to_the_end positions_can_be_named
        lengths_are_set holes_are_zeros places_are_sought wrong_modes_are_refused
        buffers_are_gathered_and_scattered copies_of_a_descriptor_share_its_position
        files_are_copied copies_that_fail_read_nothing locks_exclude_others
        folders_are_no_files space_is_reserved syncs_are_answered flags_are_told
        files_are_always_ready;
    paths:
        a_path_is_no_open_file flags_of_an_open_exclude_each_other
        flags_of_calls_with_a_path_are_checked lengths_and_times_of_paths_are_checked
        files_are_made_without_an_open keys_are_those_of_the_file ranges_are_checked;
}
