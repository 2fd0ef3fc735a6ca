//! Servers of Debian's, for tests that start them by themselves.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    Failure, apt,
    tree::{at, entries},
};

/// Installs the packages of those programs that are missing, PostgreSQL and RabbitMQ among them.
/// Each entry is a program and its package.
pub(crate) fn install(programs: &[(&str, &str)], log: &Path) -> Result<(), Failure> {
    let missing = missing(programs);
    if missing.is_empty() {
        return Ok(());
    }
    install_quietly(&missing, log)
}

/// The packages that are missing.
fn missing<'a>(programs: &[(&str, &'a str)]) -> Vec<&'a str> {
    let mut missing = apt::missing(programs);
    // These two have programs that are on nobody's path.
    let versions = entries(Path::new("/usr/lib/postgresql")).unwrap_or_default();
    if !versions
        .iter()
        .any(|version| version.path().join("bin/initdb").is_file())
    {
        missing.push("postgresql");
    }
    if !Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").is_file() {
        missing.push("rabbitmq-server");
    }
    missing
}

/// Debian starts a server that it installs, unless a policy says no. If the machine has no policy,
/// it has this one for that time.
fn install_quietly(packages: &[&str], log: &Path) -> Result<(), Failure> {
    // PostgreSQL would also make a database, which nobody here uses.
    let no_database = Path::new("/etc/postgresql-common/createcluster.conf");
    if !no_database.exists() {
        fs::create_dir_all("/etc/postgresql-common").map_err(at(no_database))?;
        fs::write(no_database, "create_main_cluster = false\n").map_err(at(no_database))?;
    }
    let policy = Path::new("/usr/sbin/policy-rc.d");
    if policy.exists() {
        return apt::install(packages, log);
    }
    fs::write(policy, "#!/bin/sh\nexit 101\n").map_err(at(policy))?;
    fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).map_err(at(policy))?;
    let installed = apt::install(packages, log);
    fs::remove_file(policy).map_err(at(policy))?;
    installed
}
