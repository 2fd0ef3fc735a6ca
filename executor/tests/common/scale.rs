//! How much work a test does; the unit tests of `src/` have this file too.

/// So many times, or fewer: `WS_TEST_SCALE` is the share in percent, for checkers that slow
/// everything down. Without it: all in CI (which sets `CI`), a quarter elsewhere.
pub(crate) fn scaled(count: usize) -> usize {
    let percent = match std::env::var("WS_TEST_SCALE") {
        Ok(text) => text.parse().expect("WS_TEST_SCALE is in percent"),
        Err(_) if std::env::var_os("CI").is_some() => 100,
        Err(_) => 25,
    };
    (count * percent / 100).max(1)
}
