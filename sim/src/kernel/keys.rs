//! The keys of std's hash maps, which begin anew with each simulation.
//!
//! std draws two numbers for a thread when its first hash map is made. Each map gets both, and the
//! first one is counted up. No function sets them. So the second simulation of a thread would have
//! other keys than the first, and other orders of its maps.
//!
//! # How it works
//!
//! A [`RandomState`] that was just made has the two numbers. They are looked for in this thread's
//! blocks of thread-locals, whose places the loader tells: a pair of words that has them, counted
//! up. If there is one such place alone, and if it follows the next map too, it is std's, and the
//! keys are written there.
//!
//! *Invariant*: nothing is written to a place that has not followed two maps.
//!
//! If std keeps them elsewhere one day, [`set`] says no, and only fresh threads have keys that
//! follow from the seed. `sim/tests/again.rs` fails then.
//!
//! # Rejected
//!
//! - A thread for each run: programs are not `Send`, and a test may have its values on its thread.
//! - `getrandom` alone: std asks it once for a thread.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_void},
    hash::RandomState,
    mem, ptr,
};

/// The two numbers, in the order of a [`RandomState`].
type Keys = [u64; 2];

/// The next hash map of this thread has these keys, in some order. False if that cannot be.
pub(crate) fn set(keys: Keys) -> bool {
    let mut search = Search {
        wanted: counted_up(of_a_new_map()),
        found: Vec::new(),
    };
    // SAFETY: `visit` has the type that is asked for, and gets the search, which lives until then.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let [place] = search.found[..] else {
        return false;
    };
    let wanted = counted_up(of_a_new_map());
    // SAFETY: `visit` found the place in a block of thread-locals of this thread.
    let followed = unsafe { ptr::read_volatile(place) };
    if !wanted.contains(&followed) {
        return false;
    }
    // SAFETY: as above. What follows two maps is the `Cell` with std's keys. Only this thread has
    // it, and no function of std that borrows it is on the stack.
    unsafe { ptr::write_volatile(place, keys) };
    let [a, b] = of_a_new_map();
    [[a, b], [b, a]].contains(&keys)
}

/// The keys of a map that is made now.
fn of_a_new_map() -> Keys {
    const { assert!(size_of::<RandomState>() == size_of::<Keys>()) };
    // SAFETY: it is two integers of 64 bits, as its size says, and integers have no bad values.
    unsafe { mem::transmute(RandomState::new()) }
}

/// What std's cell may have after a map got these keys: fields have no fixed order.
fn counted_up([a, b]: Keys) -> [Keys; 4] {
    let (a_up, b_up) = (a.wrapping_add(1), b.wrapping_add(1));
    [[a_up, b], [b, a_up], [a, b_up], [b_up, a]]
}

struct Search {
    wanted: [Keys; 4],
    found: Vec<*mut Keys>,
}

/// Looks into the thread-locals of one library, or of the program.
///
/// # Safety
///
/// As the loader calls it: with what describes a library. `search` is a [`Search`].
unsafe extern "C" fn visit(
    library: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: by contract. The headers are as many as it says.
    let (library, search, headers) = unsafe {
        let library = &*library;
        let headers = library.dlpi_phdr;
        let headers = std::slice::from_raw_parts(headers, library.dlpi_phnum.into());
        (library, &mut *search.cast::<Search>(), headers)
    };
    let block = library.dlpi_tls_data;
    let locals = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    let Some(locals) = locals.filter(|_| !block.is_null()) else {
        return 0;
    };
    let begin = block.align_offset(align_of::<Keys>());
    let words = (locals.p_memsz as usize).saturating_sub(begin) / size_of::<u64>();
    for word in 1..words {
        let place = block.wrapping_byte_add(begin + (word - 1) * size_of::<u64>());
        let place = place.cast::<Keys>();
        // SAFETY: the loader says that this thread's block has so many bytes. It lives as long as
        // the thread, and any bytes are good integers. A word that another thread changes just now
        // is none of the two, which are this thread's alone.
        let keys = unsafe { ptr::read_volatile(place) };
        if search.wanted.contains(&keys) {
            search.found.push(place);
        }
    }
    0
}
