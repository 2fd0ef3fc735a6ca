//! That the crates need nothing newer than the Rust that the README promises.
//!
//! Debian has two compilers that know edition 2024: 1.96 and, older than the promise, 1.85. So the
//! crates are checked by 1.85 with [`PREVIEWS`] switched on: what is used here and became stable
//! in 1.86 to 1.88. All that 1.85 accepts, 1.88 accepts as well, and each of the previews is in
//! 1.88 as it was in 1.85.
//!
//! A compiler between the two is better evidence, and was not to be had: rustup's servers have it.
//! clippy's `incompatible_msrv` looks at the same from the other side, by a list of what became
//! stable when.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use crate::{
    Failure,
    deep::{Outcome, shop::Shop},
    process,
    tree::{at, entries},
};

/// Features of the language and of std, with the version in which each became stable.
const PREVIEWS: &[(&str, &str)] = &[
    ("let_chains", "1.88"),
    ("integer_sign_cast", "1.87"),
    ("unsigned_is_multiple_of", "1.87"),
];
/// The same of `alloc` and std, of 1.86 and 1.87, for our own crates: a crate that has `core` alone
/// does not know them.
const OURS: &str = "vec_pop_if,os_str_display";
/// The compiler, its libraries, and LLVM, of Debian 12 before its updates.
const PACKAGES: [&str; 4] = [
    "rustc-web=1.85.0+dfsg3-1~deb12u3",
    "libstd-rust-web-1.85",
    "libstd-rust-web-dev=1.85.0+dfsg3-1~deb12u3",
    "libllvm19",
];
const LIMIT: Duration = Duration::from_secs(20 * 60);

pub(crate) fn step(shop: &Shop) -> Outcome {
    let rustc = shop.folder("oldest").join("rustc");
    if !rustc.exists() {
        unpack(shop, &rustc)?;
    }
    let names: Vec<_> = PREVIEWS.iter().map(|(name, _)| *name).collect();
    let mut command = shop.cargo("oldest/target");
    command
        .env("RUSTC", &rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "RUSTFLAGS",
            format!("-Zcrate-attr=feature({})", names.join(",")),
        )
        .args(["check", "--ignore-rust-version", "--keep-going"])
        .args(["--features", super::FEATURES])
        .args(super::CRATES.map(|package| format!("--package={package}")));
    shop.run("oldest", LIMIT, command)?.success()?;
    let version = process::output(Command::new(&rustc).arg("--version"))?;
    Ok(format!(
        "{} with {}, {OURS}",
        version.lines().next().unwrap_or_default(),
        names.join(", ")
    ))
}

/// Unpacks the old compiler beside the new one, and writes a script that starts it.
fn unpack(shop: &Shop, rustc: &Path) -> Result<(), Failure> {
    let folder = shop.folder("oldest");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let mut download = Command::new("apt-get");
    download.current_dir(&folder).arg("download").args(PACKAGES);
    shop.run("oldest-apt", LIMIT, download)?.success()?;
    for entry in entries(&folder)? {
        if entry.path().extension().is_some_and(|end| end == "deb") {
            let mut unpack = Command::new("dpkg");
            unpack.arg("--extract").arg(entry.path()).arg(&folder);
            process::run(&mut unpack)?;
        }
    }
    let usr = folder.join("usr");
    let usr = usr.display();
    let script = format!(
        "#!/bin/sh\n\
         case \"$CARGO_PKG_NAME\" in\n\
         ws-*) set -- \"$@\" '-Zcrate-attr=feature({OURS})' ;;\n\
         esac\n\
         LD_LIBRARY_PATH={usr}/lib/x86_64-linux-gnu:{usr}/lib exec {usr}/bin/rustc \"$@\"\n"
    );
    fs::write(rustc, script).map_err(at(rustc))?;
    fs::set_permissions(rustc, fs::Permissions::from_mode(0o755)).map_err(at(rustc))
}
