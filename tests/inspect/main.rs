//! `ws::inspect`, asked by a client in plain std. `tests/browser` looks at it with a browser.

#[path = "support/client.rs"]
mod client;
mod each_poll_ends_with_its_page;
mod the_page_changes_only_what_it_may;
mod the_page_is_for_this_machine_alone;
mod the_page_tells_what_is_there;
