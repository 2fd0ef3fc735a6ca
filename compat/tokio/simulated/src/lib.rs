//! There is no library here: see the tests.
