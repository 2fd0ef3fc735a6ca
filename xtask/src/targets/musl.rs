//! The example `serve` as one static file, with musl for a C library: what goes into an empty
//! container. It is built, started, and driven by curl as in `cargo xtask ci serve-curl`.
//!
//! Debian has musl and no std for it, so std is built as well. Two things are in the way, and each
//! has its flag in [`FLAGS`]:
//!
//! - rustup's std brings the start files of musl and an unwinder. Here the start files are those of
//!   Debian's `musl-tools`, and the unwinder is LLVM's.
//! - That unwinder was built for glibc, and calls `__fprintf_chk` to say why it aborts. musl has no
//!   such function, so it aborts without words.

use std::{process::Command, time::Duration};

use super::debian;
use crate::{
    deep::{Outcome, shop::Shop},
    process,
};

const TRIPLE: &str = "x86_64-unknown-linux-musl";
const FLAGS: &str = "-Clink-self-contained=no -Crelocation-model=static \
     -Lnative=/usr/lib/x86_64-linux-musl -Lnative=/usr/lib/llvm-14/lib \
     -Clink-arg=-Wl,--defsym=__fprintf_chk=abort";
const LIMIT: Duration = Duration::from_secs(30 * 60);

pub(crate) fn step(shop: &Shop) -> Outcome {
    let needs = [
        ("musl-gcc", "musl-tools"),
        ("/usr/lib/llvm-14/lib/libunwind.a", "libunwind-14-dev"),
        ("file", "file"),
        ("curl", "curl"),
        ("wrk", "wrk"),
    ];
    debian::install(shop, &needs)?;
    let mut command = debian::cargo(shop, "build");
    command
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", FLAGS)
        .args(["--target", TRIPLE, "--example", "serve"]);
    shop.run("musl-build", LIMIT, command)?.success()?;

    let serve = debian::built(shop, TRIPLE).join("examples/serve");
    let linked = process::output(Command::new("file").arg("--brief").arg(&serve))?;
    if !linked.contains("statically linked") {
        return Err(format!("serve is not one static file, but {linked}"));
    }
    let mut command = Command::new(shop.root.join(".ci/serve-curl.sh"));
    command.arg(&serve);
    let log = shop.run("musl-serve", LIMIT, command)?;
    log.success()?;
    Ok(log.text.lines().last().unwrap_or_default().to_owned())
}
