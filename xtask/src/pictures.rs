//! The pictures of the live page in `docs/pictures/`, which a browser makes of a running program.

use std::path::Path;

use crate::{Failure, apt, cargo};

/// The browser, and what drives it, with their packages of Debian's.
const BROWSER: [(&str, &str); 2] = [
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
];

/// Installs the browser if it is missing.
pub(crate) fn install_browser(log: &Path) -> Result<(), Failure> {
    match &apt::missing(&BROWSER)[..] {
        [] => Ok(()),
        missing => apt::install(missing, log),
    }
}

/// Makes them anew.
pub(crate) fn make(root: &Path) -> Result<(), Failure> {
    install_browser(&cargo::target(root).join("apt.log"))?;
    cargo::run(root, "build --release --package ws-browser --bins")?;
    let words = "run --release --quiet --package ws-browser --bin pictures docs/pictures";
    cargo::run(root, words)
}
