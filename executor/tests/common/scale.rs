//! How much work a test does; the unit tests of `src/` have this file too.

/// So many times, or fewer: `WS_TEST_SCALE` is the share in percent, for checkers that slow
/// everything down.
pub(crate) fn scaled(count: usize) -> usize {
    let percent = std::env::var("WS_TEST_SCALE").map_or(100, |text| {
        text.parse().expect("WS_TEST_SCALE is in percent")
    });
    (count * percent / 100).max(1)
}
