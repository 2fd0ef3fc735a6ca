//! How a program is run to its end, and what is said if it fails.

use std::{
    fmt::Write,
    io,
    path::Path,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use crate::Failure;

/// Runs a command that writes to our own output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command
        .status()
        .map_err(|error| format!("`{}`: {error}", words(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}`: {status}", words(command)))
    }
}

/// What a command writes to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let fails = |words: String, why: &dyn std::fmt::Display| format!("`{words}`: {why}");
    let output = command
        .output()
        .map_err(|error| fails(words(command), &error))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let why = format!("{}\n{why}", output.status);
        return Err(fails(words(command), &why));
    }
    String::from_utf8(output.stdout).map_err(|error| fails(words(command), &error))
}

/// Waits for the end of a child. None if it still runs after `limit`.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() >= until {
            return Ok(ended);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The same, and a child that still runs is killed.
pub(crate) fn wait_or_kill(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let ended = wait(child, limit)?;
    if ended.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(ended)
}

/// A command as it is typed, without the folder of its program.
pub(crate) fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let mut words = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        let _ = write!(words, " {}", argument.to_string_lossy());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_why() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo said; echo complained >&2; exit 3"]);
        let failure = output(&mut command).unwrap_err();
        assert!(failure.starts_with("`sh -c "), "{failure}");
        assert!(failure.contains("exit status: 3"), "{failure}");
        assert!(failure.contains("complained"), "{failure}");
        assert!(
            run(&mut Command::new("/no/such"))
                .unwrap_err()
                .starts_with("`such`: ")
        );
    }

    #[test]
    fn a_wait_ends_at_its_limit() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(wait(&mut child, Duration::ZERO).unwrap().is_none());
        assert!(wait_or_kill(&mut child, Duration::ZERO).unwrap().is_none());
        assert!(wait(&mut child, Duration::ZERO).unwrap().is_some());
    }
}
