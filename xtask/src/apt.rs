//! Debian's packages, for the tools and the servers that a check needs.

use std::{env, fs::File, path::Path, process::Command};

use crate::{Failure, process, tree::at};

/// The packages of those programs that are not installed. Each entry is a program and its package.
pub(crate) fn missing<'a>(programs: &[(&str, &'a str)]) -> Vec<&'a str> {
    programs
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect()
}

/// Whether a program is installed. Looks in `/usr/sbin` as well, which is not on every user's path.
pub(crate) fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

/// What installs packages. The lists come first: an image's old ones name packages that are no
/// longer there, and compilers that are too old for this workspace.
pub(crate) fn commands(packages: &[&str]) -> [Command; 2] {
    let mut update = Command::new("apt-get");
    update.args(["update", "-qq"]);
    let mut install = Command::new("apt-get");
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(packages);
    [update, install]
}

/// Installs packages, with apt's output in a log.
pub(crate) fn install(packages: &[&str], log: &Path) -> Result<(), Failure> {
    let file = File::create(log).map_err(at(log))?;
    for mut command in commands(packages) {
        process::run(command.stdout(file.try_clone().map_err(at(log))?))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let programs = [("sh", "dash"), ("ws-no-such-program", "its-package")];
        assert_eq!(missing(&programs), ["its-package"]);
    }
}
